-- Hit tokens by cache tier: tier 1 holds stack distances below its capacity, tier 2 the next ones, and so on (exclusive tiers of one LRU order).
-- Needs: order.
CREATE MACRO tiers(axis VARCHAR := 'all', capacities BIGINT[] := []) AS TABLE
WITH limits AS (
  SELECT
    generate_subscripts(capacities, 1) AS tier,
    unnest(capacities)::BIGINT AS size
),
edges AS (SELECT tier, size, sum(size) OVER (ORDER BY tier)::BIGINT AS upto FROM limits),
base AS (SELECT "group", sum(prefix_tokens)::BIGINT AS prefix_tokens, min(group_order) AS group_order FROM grouped(axis) GROUP BY "group"),
hits AS (
  SELECT g."group", e.tier,
    sum(greatest(0, least(r.blocks, e.upto - r.distance_blocks))
      - greatest(0, least(r.blocks, e.upto - e.size - r.distance_blocks))) AS blocks
  FROM grouped(axis) g JOIN runs r ON r.request = g.row CROSS JOIN edges e
  GROUP BY g."group", e.tier
)
SELECT
  base."group", e.tier, e.size AS capacity_blocks, e.size * getvariable('block_size') AS capacity_tokens,
  (coalesce(hits.blocks, 0) * getvariable('block_size'))::BIGINT AS hit_tokens, prefix_tokens,
  coalesce(hits.blocks, 0) * getvariable('block_size') / nullif(prefix_tokens, 0) AS hit_rate
FROM base CROSS JOIN edges e
LEFT JOIN hits ON hits."group" = base."group" AND hits.tier = e.tier
ORDER BY base.group_order NULLS LAST, base."group", e.tier;
