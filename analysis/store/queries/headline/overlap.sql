-- How much prompts repeat each other: prefix tokens, distinct tokens, re-processing factor, same- and cross-session hits.
-- Distinct tokens: tokens of the tree nodes on the paths of selected prompts. Re-processing factor: prefix / distinct tokens.
-- Previous-request overlap: full blocks shared with the session's previous request over full blocks, main sessions, first
-- requests in the denominator.
CREATE MACRO overlap() AS TABLE
WITH
known AS (
  SELECT * FROM selected WHERE prefix_tokens IS NOT NULL
),
sums AS (
  SELECT
    sum(prefix_tokens) AS prefix,
    count(session_id) AS in_sessions,
    sum(same_session_hit_tokens) AS same,
    sum(hit_tokens - same_session_hit_tokens) AS other,
    sum(shared_previous_tokens // getvariable('block_size')) FILTER (in_main_session) AS previous_blocks,
    sum(full_blocks) FILTER (in_main_session) AS full_blocks
  FROM known
)
SELECT
  prefix::BIGINT AS prefix_tokens,
  getvariable('distinct_tokens')::BIGINT AS distinct_tokens,
  prefix / nullif(getvariable('distinct_tokens'), 0) AS reprocessing_factor,
  CASE WHEN in_sessions > 0 THEN same::BIGINT END AS same_session_hit_tokens,
  CASE WHEN in_sessions > 0 THEN other::BIGINT END AS cross_session_hit_tokens,
  previous_blocks / nullif(full_blocks, 0) AS previous_request_overlap_rate
FROM sums;
