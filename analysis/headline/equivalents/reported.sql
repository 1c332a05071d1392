{matches}
SELECT "group", count(*) AS requests, sum(coalesce(tokens, 0))::BIGINT AS achievable_tokens,
  sum(cache_read_tokens)::BIGINT AS reported_tokens
FROM grouped('{axis}') LEFT JOIN matches USING ("row")
WHERE cache_read_tokens IS NOT NULL AND prefix_tokens IS NOT NULL GROUP BY "group" ORDER BY "group"
