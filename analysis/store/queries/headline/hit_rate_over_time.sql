-- Hit rate over time, in `bins` equal stretches: the rate of each stretch, and the rate of all requests up to its end.
-- Warming up: the bins before the first one whose rate reaches 95 % of the rate over the last half of the tokens.
CREATE MACRO hit_rate_over_time(bins BIGINT := 60) AS TABLE
WITH spans AS (SELECT min(arrival_s) AS begin_s, max(arrival_s) AS final_s FROM selected WHERE prefix_tokens IS NOT NULL),
sums AS (
  SELECT
    least(bins - 1, floor((arrival_s - begin_s) / nullif(final_s - begin_s, 0) * bins))::BIGINT AS bin,
    sum(hit_tokens) AS hit, sum(prefix_tokens) AS prefix, count(*) AS requests,
    any_value(begin_s) AS begin_s, any_value(final_s) AS final_s
  FROM selected, spans
  WHERE prefix_tokens IS NOT NULL AND arrival_s IS NOT NULL AND final_s > begin_s
  GROUP BY ALL
),
running AS (
  SELECT *, sum(hit) OVER up_to AS hit_so_far, sum(prefix) OVER up_to AS prefix_so_far, sum(prefix) OVER () AS prefix_all
  FROM sums
  WINDOW up_to AS (ORDER BY bin)
),
settled AS (SELECT sum(hit) / nullif(sum(prefix), 0) AS rate FROM running WHERE prefix_so_far * 2 >= prefix_all),
warm AS (SELECT min(bin) AS bin FROM running, settled WHERE hit / nullif(prefix, 0) >= 0.95 * settled.rate)
SELECT
  begin_s + (running.bin + 1) * (final_s - begin_s) / bins AS until_s, requests, prefix::BIGINT AS prefix_tokens,
  hit / nullif(prefix, 0) AS hit_rate, hit_so_far / nullif(prefix_so_far, 0) AS hit_rate_so_far,
  coalesce(running.bin < warm.bin, false) AS warming_up
FROM running, warm
ORDER BY running.bin;
