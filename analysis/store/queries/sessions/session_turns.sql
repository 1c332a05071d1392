-- The turns of one session (without a session: of all), each with where the tokens of its prompt went: the causes are
-- those of misses and sum to prefix_tokens. history_tokens: tokens of the session's previous prompt after the point where
-- this one differs from all earlier prompts. gap_s: from the end of the session's previous request to this arrival.
-- sub_agents: sessions that the request is known to have started. `causes` names the file of per-request causes (see misses).
CREATE MACRO session_turns(session BIGINT := NULL, causes VARCHAR := NULL) AS TABLE
WITH started AS (
  SELECT spawn_request_id AS request_id, count(*) AS sub_agents
  FROM read_parquet(getvariable('sessions_file')) WHERE spawn_request_id IS NOT NULL GROUP BY 1
)
SELECT
  s.session_id, s.turn, s.request_id, s.model, s.arrival_s, s.gap_s, s.transition,
  s.shared_previous_tokens, s.prefix_tokens, m.hit, m.in_flight, m.routing, m.ttl, m.capacity, m.block_rounding,
  m.rewritten, m.first_seen, m.lost_tokens AS history_tokens, s.output_tokens, s.cache_read_tokens,
  coalesce(started.sub_agents, 0) AS sub_agents
FROM selected s
JOIN read_parquet(causes) m ON m.row = s.row
LEFT JOIN started ON started.request_id = s.request_id
WHERE s.session_id IS NOT NULL AND s.prefix_tokens IS NOT NULL AND (session IS NULL OR s.session_id = session)
ORDER BY s.session_id, s.turn, s.row;
