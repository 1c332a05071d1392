-- The size and pace of the workload: requests, sessions, input and output tokens, turns, growth, gaps, rates.
-- Input counts all prompt tokens, including cached ones. Ratios use requests where both sides are known. New tokens per turn:
-- prompt tokens that the session's previous prompt did not have. Gap: from the end of a request (its arrival where the
-- end is unknown) to the next arrival of its session. Turns are those of main sessions.
CREATE MACRO workload() AS TABLE
WITH
totals AS (
  SELECT
    count(*) AS requests,
    count(DISTINCT session_id) AS sessions,
    count(DISTINCT session_id) FILTER (in_main_session) AS main_sessions,
    sum(input_tokens)::BIGINT AS input_tokens,
    sum(output_tokens)::BIGINT AS output_tokens,
    sum(input_tokens) FILTER (output_tokens IS NOT NULL) / nullif(sum(output_tokens) FILTER (input_tokens IS NOT NULL), 0)
      AS input_output_ratio,
    sum(input_tokens) FILTER (coalesce(output_tokens_estimate, output_tokens) IS NOT NULL)
      / nullif(sum(coalesce(output_tokens_estimate, output_tokens)) FILTER (input_tokens IS NOT NULL), 0)
      AS input_output_ratio_estimated,
    quantile_cont(input_tokens / nullif(output_tokens, 0), 0.5) AS input_output_ratio_p50,
    quantile_cont(input_tokens, [0.5, 0.9, 0.99]) AS input_q,
    max(input_tokens) AS input_tokens_max,
    quantile_cont(output_tokens, [0.5, 0.9, 0.99]) AS output_q,
    quantile_cont(prefix_tokens - shared_previous_tokens, [0.5, 0.9, 0.99]) FILTER (turn > 0) AS new_q,
    quantile_cont(gap_s, [0.5, 0.9, 0.99]) AS gap_q,
    max(arrival_s) - min(arrival_s) AS duration_s,
    count(*) FILTER (transition = 'compaction') AS context_resets,
    count(session_id) > 0 AS has_sessions,
    count(*) FILTER (transition IS NOT NULL) > 0 AS has_transitions
  FROM selected
),
turns AS (
  SELECT avg(n) AS turns_mean, quantile_cont(n, [0.5, 0.9, 0.99]) AS turns_q, max(n) AS turns_max
  FROM (
    SELECT count(*) AS n FROM selected
    WHERE in_main_session
    GROUP BY session_id
  )
),
edges AS (
  SELECT session_id, arrival_s AS moment, 1 AS step FROM selected WHERE end_s IS NOT NULL
  UNION ALL
  SELECT session_id, end_s, -1 FROM selected WHERE end_s IS NOT NULL
),
flight AS (
  SELECT max(running) AS peak
  FROM (SELECT sum(step) OVER (ORDER BY moment, step ROWS UNBOUNDED PRECEDING) AS running FROM edges)
),
own_flight AS (
  SELECT max(running) AS peak
  FROM (
    SELECT sum(step) OVER (PARTITION BY session_id ORDER BY moment, step ROWS UNBOUNDED PRECEDING) AS running
    FROM edges WHERE session_id IS NOT NULL
  )
)
SELECT
  requests,
  CASE WHEN has_sessions THEN sessions END AS sessions,
  CASE WHEN has_sessions THEN main_sessions END AS main_sessions,
  input_tokens, output_tokens, input_output_ratio, input_output_ratio_estimated, input_output_ratio_p50,
  input_q[1] AS input_tokens_p50, input_q[2] AS input_tokens_p90, input_q[3] AS input_tokens_p99, input_tokens_max,
  output_q[1] AS output_tokens_p50, output_q[2] AS output_tokens_p90, output_q[3] AS output_tokens_p99,
  turns_mean, turns_q[1] AS turns_p50, turns_q[2] AS turns_p90, turns_q[3] AS turns_p99, turns_max,
  new_q[1] AS new_tokens_per_turn_p50, new_q[2] AS new_tokens_per_turn_p90, new_q[3] AS new_tokens_per_turn_p99,
  gap_q[1] AS gap_s_p50, gap_q[2] AS gap_s_p90, gap_q[3] AS gap_s_p99,
  CASE WHEN getvariable('timed') THEN duration_s END AS duration_s,
  CASE WHEN getvariable('timed') AND duration_s > 0 THEN (requests - 1) / duration_s END AS requests_per_s,
  CASE WHEN getvariable('timed') THEN flight.peak::BIGINT END AS peak_requests_in_flight,
  own_flight.peak::BIGINT AS max_in_flight_per_session,
  CASE WHEN has_transitions THEN context_resets END AS context_resets
FROM totals, turns, flight, own_flight;
