{causes}
SELECT request_id, prefix_tokens, hit, in_flight, routing, ttl, capacity, block_rounding, rewritten, first_seen,
  lost_tokens
FROM causes ORDER BY rank
