-- How many main sessions have how many turns (requests).
CREATE MACRO turns() AS TABLE
SELECT turns, count(*) AS sessions
FROM (
  SELECT count(*) AS turns FROM selected
  WHERE in_main_session
  GROUP BY session_id
)
GROUP BY turns
ORDER BY turns;
