{matches},
cached AS (  -- leading blocks of each prompt that were used within the TTL, and those that the cache still holds
  SELECT request AS "row", sum(blocks) AS recent,
    sum(greatest(0, least(blocks, coalesce({capacity} - distance_blocks, blocks)))) AS held
  FROM runs WHERE {ttl_s} IS NULL OR gap_s <= {ttl_s}
  GROUP BY request
),
lengths AS (
  SELECT s.*, getvariable('block_size') AS b, coalesce(m.tokens, 0) AS matched, coalesce(c.held, 0) AS held,
    least(coalesce(c.recent, 0), coalesce(m.tokens, 0) // getvariable('block_size')) AS recent,
    least(s.prefix_tokens, coalesce(s.previous_prefix_tokens, 0)) AS both_tokens,
    CASE WHEN native_block_tokens > 1 THEN native_block_tokens ELSE 1 END AS native
  FROM grouped('{axis}') s LEFT JOIN matches m USING ("row") LEFT JOIN cached c USING ("row")
  JOIN requests USING (request_id) JOIN sources USING (source_id)
  WHERE s.prefix_tokens IS NOT NULL
),
causes AS (
  SELECT *, held * b AS hit, 0 AS in_flight, 0 AS routing, (matched // b - greatest(recent, held)) * b AS ttl,
    (greatest(recent, held) - held) * b AS capacity, matched % b AS block_rounding,
    CASE WHEN transition IN ('edit', 'system_change', 'tail', 'unrelated')
      THEN greatest(0, both_tokens - matched) ELSE 0 END AS rewritten,
    prefix_tokens - matched - rewritten AS first_seen,
    greatest(0, both_tokens // native * native - matched) AS lost_tokens
  FROM lengths
)
