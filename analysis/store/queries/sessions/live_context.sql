-- Prompt tokens per request (the context that its session keeps live): quantiles over the selected requests, and mean output.
CREATE MACRO live_context() AS TABLE
SELECT
  count(n) AS requests, quantile_cont(n, 0.5) AS p50, quantile_cont(n, 0.9) AS p90, quantile_cont(n, 0.99) AS p99,
  max(n)::DOUBLE AS "max", avg(output_tokens) AS output_tokens_mean
FROM (SELECT coalesce(input_tokens, prefix_tokens) AS n, output_tokens FROM selected);
