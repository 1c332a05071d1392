{causes}
-- Where the provider reports what it read, its losses count for requests in which they are larger; not here.
SELECT session_id, sum(ttl + capacity + lost_tokens)::BIGINT AS lost_tokens
FROM causes WHERE session_id IS NOT NULL GROUP BY session_id HAVING lost_tokens > 0
ORDER BY lost_tokens DESC, sum(prefix_tokens) DESC, session_id
