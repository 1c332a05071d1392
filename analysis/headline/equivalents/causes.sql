{causes}
SELECT "group", count(*) AS requests, sum(prefix_tokens)::BIGINT AS prefix_tokens,
  sum(hit)::BIGINT AS hit, sum(in_flight)::BIGINT AS in_flight, sum(routing)::BIGINT AS routing, sum(ttl)::BIGINT AS ttl, sum(capacity)::BIGINT AS capacity, sum(block_rounding)::BIGINT AS block_rounding, sum(rewritten)::BIGINT AS rewritten, sum(first_seen)::BIGINT AS first_seen, sum(lost_tokens)::BIGINT AS lost_tokens
FROM causes GROUP BY "group" ORDER BY min(group_order) NULLS LAST, "group"
