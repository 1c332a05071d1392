-- One row per session: its type, turns, tokens, ceiling and reported rate, most missed tokens first.
CREATE MACRO sessions(most BIGINT := 500) AS TABLE
SELECT
  session_id, any_value(trajectory_type) AS trajectory_type, any_value(role) AS role, any_value(agent) AS agent,
  count(*) AS requests, max(input_tokens) AS input_tokens_max, sum(input_tokens)::BIGINT AS input_tokens,
  sum(output_tokens)::BIGINT AS output_tokens,
  sum(prefix_tokens - hit_tokens)::BIGINT AS missed_tokens,
  sum(hit_tokens) / nullif(sum(prefix_tokens), 0) AS ceiling,
  sum(cache_read_tokens) FILTER (input_tokens IS NOT NULL)
    / nullif(sum(input_tokens) FILTER (cache_read_tokens IS NOT NULL), 0) AS reported
FROM selected
WHERE session_id IS NOT NULL
GROUP BY session_id
ORDER BY missed_tokens DESC NULLS LAST, session_id
LIMIT most;
