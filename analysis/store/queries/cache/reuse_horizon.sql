-- The reuse horizon (p90 of the time between two uses, over reuse runs), and the mean number of sessions inside it: a
-- session counts from its first arrival until one horizon after its last.
CREATE MACRO reuse_horizon() AS TABLE
WITH spans AS (
  SELECT min(arrival_s) AS first_s, max(arrival_s) AS last_s FROM selected
  WHERE session_id IS NOT NULL AND arrival_s IS NOT NULL GROUP BY session_id
),
horizon AS (
  SELECT quantile_cont(r.gap_s, 0.9) AS horizon_s FROM runs r JOIN selected s ON r.request = s.row WHERE r.gap_s IS NOT NULL
)
SELECT
  any_value(horizon_s) AS horizon_s,
  sum(last_s - first_s + horizon_s) / nullif(max(last_s) - min(first_s) + any_value(horizon_s), 0) AS sessions
FROM spans, horizon;
