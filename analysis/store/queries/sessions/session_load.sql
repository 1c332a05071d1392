-- How busy sessions are, by the most requests that a session has in flight at once: sessions, requests, median duty cycle
-- (time with a request in flight / time from the first arrival to the last end). Only requests with known durations.
CREATE MACRO session_load() AS TABLE
WITH timed AS (
  SELECT session_id, arrival_s, end_s FROM selected
  WHERE session_id IS NOT NULL AND arrival_s IS NOT NULL AND end_s IS NOT NULL
),
edges AS (
  SELECT session_id, arrival_s AS moment, 1 AS step FROM timed
  UNION ALL
  SELECT session_id, end_s, -1 FROM timed
),
running AS (
  SELECT session_id, moment,
    sum(step) OVER (PARTITION BY session_id ORDER BY moment, step ROWS UNBOUNDED PRECEDING) AS in_flight,
    lead(moment) OVER (PARTITION BY session_id ORDER BY moment, step) - moment AS lasts_s
  FROM edges
),
sessions AS (
  SELECT session_id, max(in_flight) AS most, count(*) / 2 AS requests,
    sum(lasts_s) FILTER (in_flight > 0) / nullif(sum(lasts_s), 0) AS duty_cycle
  FROM running GROUP BY session_id
)
SELECT
  most::BIGINT AS in_flight_at_most, count(*) AS sessions, sum(requests)::BIGINT AS requests,
  quantile_cont(duty_cycle, 0.5) AS duty_cycle_p50
FROM sessions
GROUP BY most
ORDER BY in_flight_at_most;
