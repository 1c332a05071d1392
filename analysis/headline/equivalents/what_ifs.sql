{matches}
-- The exact rows: other block sizes, and prompts cut off after a number of tokens.
SELECT 'block_size' AS what_if, v.value, sum(tokens // v.value * v.value)::BIGINT AS hit_tokens
FROM selected JOIN matches USING ("row") CROSS JOIN (SELECT unnest({block_sizes}) AS value) v GROUP BY v.value
UNION ALL
SELECT 'context_cap', v.value, sum(least(tokens, v.value) // b * b)::BIGINT
FROM (SELECT *, getvariable('block_size') AS b FROM selected) JOIN matches USING ("row")
CROSS JOIN (SELECT unnest({caps}) AS value) v GROUP BY v.value
ORDER BY what_if, value
