-- How many main sessions have how many turns (requests).
CREATE OR REPLACE MACRO turns() AS TABLE
SELECT turns, count(*) AS sessions
FROM (
  SELECT count(*) AS turns FROM selected
  WHERE session_id IS NOT NULL AND parent_session_id IS NULL AND coalesce(role, 'main') NOT IN ('subagent', 'side')
  GROUP BY session_id
)
GROUP BY turns
ORDER BY turns;
