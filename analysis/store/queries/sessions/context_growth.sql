-- Prompt length by turn: median, p10, p90 over sessions, and how many sessions reach that turn.
CREATE MACRO context_growth(axis VARCHAR := 'all', most_turns BIGINT := 400) AS TABLE
SELECT
  "group", turn, count(*) AS sessions,
  quantile_cont(input_tokens, 0.1) AS input_tokens_p10,
  quantile_cont(input_tokens, 0.5) AS input_tokens_p50,
  quantile_cont(input_tokens, 0.9) AS input_tokens_p90
FROM grouped(axis)
WHERE turn IS NOT NULL AND turn < most_turns AND input_tokens IS NOT NULL
GROUP BY "group", turn
ORDER BY min(group_order) NULLS LAST, "group", turn;
