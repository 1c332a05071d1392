-- The main figures by one axis: requests, sessions, tokens, ratio, turns, prefix tokens, ceiling, reported rate.
-- Groups sum to the whole. Ceiling hits of a group depend on who came first where groups share prefixes.
CREATE MACRO by_axis(axis VARCHAR := 'all') AS TABLE
WITH groups AS (
  SELECT
    "group",
    count(*) AS requests,
    count(DISTINCT session_id) AS sessions,
    count(session_id) AS in_sessions,
    sum(input_tokens) AS input_tokens,
    sum(output_tokens) AS output_tokens,
    sum(input_tokens) FILTER (output_tokens IS NOT NULL) AS paired_input,
    sum(output_tokens) FILTER (input_tokens IS NOT NULL) AS paired_output,
    sum(prefix_tokens) AS prefix_tokens,
    sum(hit_tokens) AS hit_tokens,
    sum(cache_read_tokens) FILTER (input_tokens IS NOT NULL) AS read,
    sum(input_tokens) FILTER (cache_read_tokens IS NOT NULL) AS read_input,
    min(group_order) AS group_order
  FROM grouped(axis)
  GROUP BY "group"
)
SELECT
  "group",
  requests,
  CASE WHEN in_sessions > 0 THEN sessions END AS sessions,
  input_tokens::BIGINT AS input_tokens,
  output_tokens::BIGINT AS output_tokens,
  paired_input / nullif(paired_output, 0) AS input_output_ratio,
  in_sessions / nullif(sessions, 0) AS turns_mean,
  prefix_tokens::BIGINT AS prefix_tokens,
  CASE WHEN getvariable('order_known') THEN hit_tokens::BIGINT END AS ceiling_hit_tokens,
  CASE WHEN getvariable('order_known') THEN hit_tokens / nullif(prefix_tokens, 0) END AS ceiling,
  read / nullif(read_input, 0) AS reported
FROM groups
ORDER BY group_order NULLS LAST, "group";
