-- Requests by transition (how the prompt relates to the session's earlier prompts), with the tokens they hit.
CREATE MACRO transitions() AS TABLE
SELECT
  coalesce(transition, 'unknown') AS transition, count(*) AS requests, count(DISTINCT session_id) AS sessions,
  sum(prefix_tokens)::BIGINT AS prefix_tokens, sum(hit_tokens)::BIGINT AS hit_tokens,
  sum(hit_tokens) / nullif(sum(prefix_tokens), 0) AS hit_rate
FROM selected
GROUP BY ALL
ORDER BY requests DESC, transition;
