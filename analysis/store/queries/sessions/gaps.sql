-- Gaps between a session's requests, by trigger: from the end of one (its arrival if the end is unknown) to the next arrival.
CREATE MACRO gaps() AS TABLE
SELECT
  coalesce(trigger, 'unknown') AS trigger, gap_group, count(*) AS requests,
  sum(shared_previous_tokens)::BIGINT AS shared_tokens, min(gap_s) AS gap_s_min
FROM selected
WHERE gap_s IS NOT NULL
GROUP BY trigger, gap_group
ORDER BY trigger, gap_s_min;
