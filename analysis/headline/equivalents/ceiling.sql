{matches}
SELECT (sum(tokens // getvariable('block_size')) * getvariable('block_size'))::BIGINT AS ceiling_hit_tokens
FROM selected JOIN matches USING ("row")
