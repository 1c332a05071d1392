{matches}
SELECT "group", (sum(tokens // getvariable('block_size')) * getvariable('block_size'))::BIGINT AS ceiling_hit_tokens
FROM grouped('{axis}') LEFT JOIN matches USING ("row")
GROUP BY "group" ORDER BY min(group_order) NULLS LAST, "group"
