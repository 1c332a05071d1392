-- Hit tokens of one LRU cache at each capacity (blocks), by one axis: Σ greatest(0, least(blocks, capacity - distance)).
-- Exact. For many capacities on large traces the curve command reads a table of the curve's bends instead.
-- Needs: order.
CREATE MACRO lru_curve(axis VARCHAR := 'all', capacities BIGINT[] := []) AS TABLE
WITH points AS (SELECT unnest(capacities)::BIGINT AS capacity_blocks),
base AS (SELECT "group", sum(prefix_tokens)::BIGINT AS prefix_tokens, min(group_order) AS group_order FROM grouped(axis) GROUP BY "group"),
hits AS (
  SELECT g."group", p.capacity_blocks, sum(greatest(0, least(r.blocks, p.capacity_blocks - r.distance_blocks))) AS blocks
  FROM grouped(axis) g JOIN runs r ON r.request = g.row CROSS JOIN points p
  GROUP BY g."group", p.capacity_blocks
)
SELECT
  base."group", p.capacity_blocks, p.capacity_blocks * getvariable('block_size') AS capacity_tokens,
  (coalesce(hits.blocks, 0) * getvariable('block_size'))::BIGINT AS hit_tokens, prefix_tokens,
  coalesce(hits.blocks, 0) * getvariable('block_size') / nullif(prefix_tokens, 0) AS hit_rate
FROM base CROSS JOIN points p
LEFT JOIN hits ON hits."group" = base."group" AND hits.capacity_blocks = p.capacity_blocks
ORDER BY base.group_order NULLS LAST, base."group", p.capacity_blocks;
