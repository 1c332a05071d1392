-- Hit tokens of an unbounded cache that forgets blocks untouched for more than a TTL (seconds), by one axis.
-- Needs: times.
CREATE MACRO ttl_curve(axis VARCHAR := 'all', ttls DOUBLE[] := []) AS TABLE
WITH points AS (SELECT unnest(ttls)::DOUBLE AS ttl_s),
base AS (SELECT "group", sum(prefix_tokens)::BIGINT AS prefix_tokens, min(group_order) AS group_order FROM grouped(axis) GROUP BY "group"),
hits AS (
  SELECT g."group", p.ttl_s, sum(r.blocks) AS blocks
  FROM grouped(axis) g JOIN runs r ON r.request = g.row CROSS JOIN points p
  WHERE r.gap_s <= p.ttl_s
  GROUP BY g."group", p.ttl_s
)
SELECT
  base."group", p.ttl_s, (coalesce(hits.blocks, 0) * getvariable('block_size'))::BIGINT AS hit_tokens, prefix_tokens,
  coalesce(hits.blocks, 0) * getvariable('block_size') / nullif(prefix_tokens, 0) AS hit_rate
FROM base CROSS JOIN points p
LEFT JOIN hits ON hits."group" = base."group" AND hits.ttl_s = p.ttl_s
ORDER BY base.group_order NULLS LAST, base."group", p.ttl_s;
