-- How many main sessions have how many turns (requests), in bands that double, by one axis.
CREATE MACRO turn_bands(axis VARCHAR := 'all') AS TABLE
WITH lengths AS (
  SELECT "group", session_id, count(*) AS turns
  FROM grouped(axis)
  WHERE in_main_session
  GROUP BY "group", session_id
),
bands AS (SELECT "group", (2 ** floor(log2(turns)))::BIGINT AS turns_from FROM lengths)
SELECT
  "group", turns_from,
  CASE WHEN turns_from = 1 THEN '1' ELSE turns_from || '–' || (2 * turns_from - 1) END AS turns,
  count(*) AS sessions
FROM bands
GROUP BY "group", turns_from
ORDER BY turns_from, "group";
