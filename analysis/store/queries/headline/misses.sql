-- Where the input tokens went, by one axis: every prefix token hits, or misses for exactly one cause, tried in this order:
-- in_flight (a running request was computing it), routing (one shared cache of the same total size would have it), ttl,
-- capacity, block_rounding (shared, but not a full block), rewritten (the previous prompt had it after a change),
-- first_seen. lost: tokens of the previous prompt after the point where this prompt differs from all earlier ones.
-- `causes` names the file of per-request causes that analysis.why writes.
CREATE MACRO misses(axis VARCHAR := 'all', causes VARCHAR := NULL) AS TABLE
SELECT
  g."group", count(*) AS requests, count(DISTINCT g.session_id) AS sessions,
  sum(m.prefix_tokens)::BIGINT AS prefix_tokens, sum(m.hit)::BIGINT AS hit, sum(m.in_flight)::BIGINT AS in_flight,
  sum(m.routing)::BIGINT AS routing, sum(m.ttl)::BIGINT AS ttl, sum(m.capacity)::BIGINT AS capacity,
  sum(m.block_rounding)::BIGINT AS block_rounding, sum(m.rewritten)::BIGINT AS rewritten,
  sum(m.first_seen)::BIGINT AS first_seen, sum(m.lost_tokens)::BIGINT AS lost_tokens
FROM grouped(axis) g JOIN read_parquet(causes) m ON m.row = g.row
WHERE g.prefix_tokens IS NOT NULL
GROUP BY g."group"
ORDER BY min(g.group_order) NULLS LAST, g."group";
