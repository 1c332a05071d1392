{paths}
-- Of all requests: whatever their order, every full block hits except on its first use.
SELECT ((SELECT sum(prefix_tokens // getvariable('block_size')) FROM facts)
  - sum(end_token // getvariable('block_size') - start_token // getvariable('block_size')))::BIGINT
  * getvariable('block_size') AS ceiling_hit_tokens
FROM prefixes WHERE prefix_id IN (SELECT node FROM path)
