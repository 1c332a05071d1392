-- The achievable hit rate (ceiling: one unbounded, shared cache of prompt tokens) and the hit rate that providers reported.
-- Ceiling: hit tokens / prefix tokens, over requests whose prompt is known; coverage: their share of input tokens.
-- Low and high: the unobserved head is wholly private, or wholly shared by sessions of one agent, version and role.
-- With output (upper bound): a request that appends also hits the previous reply, except for its last token.
-- Reported: cache reads / input over requests whose cache field is known. Gap: ceiling - reported over the same requests.
CREATE MACRO hit_rate() AS TABLE
WITH
known AS (
  SELECT
    *,
    CASE
      WHEN transition = 'append' AND previous_output_tokens IS NOT NULL
      THEN greatest(hit_tokens, getvariable('block_size') * (least(prefix_tokens, previous_prefix_tokens + previous_output_tokens - 1) // getvariable('block_size')))
      ELSE hit_tokens
    END AS hit_with_output
  FROM selected
),
sums AS (
  SELECT
    sum(hit_tokens) AS hit, sum(prefix_tokens) AS prefix, sum(input_tokens) AS input,
    sum(input_tokens) FILTER (prefix_tokens IS NOT NULL) AS covered,
    sum(hit_with_output) AS with_output, sum(shared_head) AS shared_head, sum(private_head) AS private_head,
    avg(hit_tokens / nullif(prefix_tokens, 0) ORDER BY rank) AS per_request,
    sum(hit_tokens // getvariable('block_size')) / nullif(sum(full_blocks), 0) AS by_block,
    count(session_id) AS in_sessions,
    sum(cache_read_tokens) FILTER (input_tokens IS NOT NULL) AS read,
    sum(cache_write_tokens) AS written,
    sum(input_tokens) FILTER (cache_read_tokens IS NOT NULL) AS read_input,
    count(*) FILTER (cache_read_tokens IS NOT NULL AND input_tokens IS NOT NULL) AS read_requests,
    sum(hit_tokens) FILTER (cache_read_tokens IS NOT NULL AND prefix_tokens IS NOT NULL) AS both_hit,
    sum(prefix_tokens) FILTER (cache_read_tokens IS NOT NULL) AS both_prefix,
    sum(cache_read_tokens) FILTER (prefix_tokens IS NOT NULL) AS both_read,
    sum(input_tokens) FILTER (cache_read_tokens IS NOT NULL AND prefix_tokens IS NOT NULL) AS both_input
  FROM known
)
SELECT
  hit / nullif(prefix, 0) AS ceiling,
  (hit - shared_head) / nullif(prefix, 0) AS ceiling_low,
  (hit + private_head) / nullif(prefix, 0) AS ceiling_high,
  hit::BIGINT AS ceiling_hit_tokens,
  CASE WHEN input > 0 THEN coalesce(covered, 0) / input END AS ceiling_coverage,
  CASE WHEN getvariable('order_known') THEN per_request END AS ceiling_mean_per_request,
  by_block AS ceiling_block_weighted,
  CASE WHEN in_sessions > 0 THEN with_output / nullif(prefix, 0) END AS ceiling_with_output,
  CASE WHEN hit < prefix THEN -log10(1 - hit / prefix) END AS nines,
  CASE WHEN read_input > 0 THEN read / read_input END AS reported,
  read::BIGINT AS reported_cache_read_tokens,
  written::BIGINT AS reported_cache_write_tokens,
  CASE WHEN read_requests > 0 THEN read_input::BIGINT END AS reported_input_tokens,
  read_requests AS reported_requests,
  CASE WHEN input > 0 THEN coalesce(read_input, 0) / input END AS reported_token_coverage,
  both_hit / nullif(both_prefix, 0) - both_read / nullif(both_input, 0) AS gap
FROM sums;
