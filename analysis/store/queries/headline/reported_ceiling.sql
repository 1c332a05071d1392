-- The ceiling over the requests whose cache reads and prompt are known, by one axis, beside what was reported for them: tokens
-- at the block size that is asked for. Low and high: the unobserved head wholly private, or wholly shared by sessions of
-- one agent, version and role (as hit_rate has them).
CREATE OR REPLACE MACRO reported_ceiling(axis, block) AS TABLE
WITH known AS (
  SELECT
    *,
    least(hit_tokens, head_tokens_unobserved) - least(same_session_hit_tokens, head_tokens_unobserved) AS shared_head,
    CASE
      WHEN transition = 'first'
        AND row_number() OVER (PARTITION BY agent, agent_version, role, transition ORDER BY rank) > 1
      THEN greatest(0, block * (head_tokens_unobserved // block) - hit_tokens) ELSE 0
    END AS private_head
  FROM grouped(axis)
)
SELECT
  "group", count(*) AS requests, sum(prefix_tokens)::BIGINT AS prefix_tokens,
  sum(cache_read_tokens)::BIGINT AS cache_read_tokens, sum(hit_tokens)::BIGINT AS ceiling_hit_tokens,
  sum(hit_tokens) / nullif(sum(prefix_tokens), 0) AS ceiling,
  sum(hit_tokens - shared_head) / nullif(sum(prefix_tokens), 0) AS ceiling_low,
  sum(hit_tokens + private_head) / nullif(sum(prefix_tokens), 0) AS ceiling_high
FROM known
WHERE prefix_tokens IS NOT NULL AND cache_read_tokens IS NOT NULL
GROUP BY "group"
ORDER BY "group";
