-- Whether the provider's cache outlived the time to the session's next request, from usage records alone: pairs of consecutive
-- requests that report cache reads and writes, by the time from one arrival to the next. Survived: the later one read at
-- least 0.9 of what the earlier one read and wrote; whole: all of it. Lost: what it did not read.
CREATE MACRO cache_survival() AS TABLE
WITH pairs AS (
  SELECT
    cache_read_tokens AS read, input_tokens,
    lag(cache_read_tokens + cache_write_tokens) OVER chain AS left_behind,
    arrival_s - lag(arrival_s) OVER chain AS since_s
  FROM selected
  WHERE session_id IS NOT NULL AND cache_read_tokens IS NOT NULL AND cache_write_tokens IS NOT NULL
  WINDOW chain AS (PARTITION BY session_id ORDER BY rank)
)
SELECT
  CASE WHEN since_s <= 300 THEN 'up to 300 s' WHEN since_s <= 3600 THEN 'up to 1 h' ELSE 'longer' END AS gap,
  count(*) AS pairs, count(*) FILTER (read >= 0.9 * left_behind) AS survived, count(*) FILTER (read >= left_behind) AS whole,
  sum(greatest(0, least(left_behind, input_tokens) - read))::BIGINT AS lost_tokens
FROM pairs
WHERE left_behind > 0 AND since_s IS NOT NULL
GROUP BY gap
ORDER BY min(since_s);
