-- The sessions to look at first: those that lost most of the tokens that an unbounded cache would have hit if no history
-- had changed, each with its costliest cause. history: tokens of the previous prompt after the point where the next one
-- differs from all earlier prompts; branches: the same for prompts that continue from an earlier prompt (fork, rewind).
-- Sessions that lost nothing are left out. `causes` names the file of per-request causes (see misses).
CREATE MACRO missing_sessions(causes VARCHAR := NULL, most BIGINT := 50) AS TABLE
WITH lost AS (
  SELECT
    s.session_id, any_value(s.trajectory_type) AS trajectory_type, any_value(s.role) AS role, count(*) AS requests,
    sum(m.prefix_tokens)::BIGINT AS prefix_tokens, sum(m.hit)::BIGINT AS hit,
    sum(m.in_flight)::BIGINT AS in_flight, sum(m.routing)::BIGINT AS routing, sum(m.ttl)::BIGINT AS ttl,
    sum(m.capacity)::BIGINT AS capacity,
    coalesce(sum(m.lost_tokens) FILTER (coalesce(s.transition, '') NOT IN ('fork', 'rewind')), 0)::BIGINT AS history,
    coalesce(sum(m.lost_tokens) FILTER (s.transition IN ('fork', 'rewind')), 0)::BIGINT AS branches
  FROM selected s JOIN read_parquet(causes) m ON m.row = s.row
  WHERE s.session_id IS NOT NULL AND s.prefix_tokens IS NOT NULL
  GROUP BY s.session_id
)
SELECT
  session_id, trajectory_type, role, requests, prefix_tokens, hit / nullif(prefix_tokens, 0) AS hit_rate,
  in_flight + routing + ttl + capacity + history + branches AS lost_tokens,
  CASE greatest(in_flight, routing, ttl, capacity, history, branches)
    WHEN history THEN 'keep the history as it was sent'
    WHEN ttl THEN 'a longer TTL'
    WHEN capacity THEN 'a larger cache'
    WHEN routing THEN 'route to the replica that has the prefix'
    WHEN in_flight THEN 'wait for the prompt that is being computed'
    ELSE 'go on from the last prompt as it was sent'
  END AS what_brings_it_back,
  in_flight, routing, ttl, capacity, history, branches
FROM lost
WHERE in_flight + routing + ttl + capacity + history + branches > 0
ORDER BY lost_tokens DESC, prefix_tokens DESC, session_id
LIMIT most;
