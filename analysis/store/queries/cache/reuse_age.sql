-- Age of reused blocks by stack distance: tokens reused at distances from capacity_blocks / 2 to capacity_blocks, and
-- quantiles of the time since their last use, over reuse runs. This is the age of the blocks that a cache of that size
-- still holds, not of those it evicts (analysis.headline.eviction_age computes the latter).
-- Needs: order.
CREATE MACRO reuse_age() AS TABLE
SELECT
  (2 ** ceil(log2(greatest(1, r.distance_blocks + r.blocks))))::BIGINT AS capacity_blocks,
  sum(r.blocks * getvariable('block_size'))::BIGINT AS tokens, count(*) AS runs,
  quantile_cont(r.gap_s, 0.1) AS age_s_p10, quantile_cont(r.gap_s, 0.5) AS age_s_p50,
  quantile_cont(r.gap_s, 0.9) AS age_s_p90
FROM selected s JOIN runs r ON r.request = s.row
WHERE r.gap_s IS NOT NULL
GROUP BY ALL
ORDER BY capacity_blocks;
