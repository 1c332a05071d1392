-- The ceiling of the requests whose cache reads and prompt are known, and the cache reads reported for them, by one axis.
-- Tokens at the requested block size. Low and high: the unobserved head is wholly private, or wholly shared by sessions of
-- one agent, version and role (as in hit_rate).
CREATE MACRO reported_ceiling(axis VARCHAR := 'all') AS TABLE
SELECT
  "group", count(*) AS requests, sum(prefix_tokens)::BIGINT AS prefix_tokens,
  sum(cache_read_tokens)::BIGINT AS cache_read_tokens, sum(hit_tokens)::BIGINT AS ceiling_hit_tokens,
  sum(hit_tokens) / nullif(sum(prefix_tokens), 0) AS ceiling,
  sum(hit_tokens - shared_head) / nullif(sum(prefix_tokens), 0) AS ceiling_low,
  sum(hit_tokens + private_head) / nullif(sum(prefix_tokens), 0) AS ceiling_high
FROM grouped(axis)
WHERE prefix_tokens IS NOT NULL AND cache_read_tokens IS NOT NULL
GROUP BY "group"
ORDER BY min(group_order) NULLS LAST, "group";
