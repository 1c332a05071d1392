-- Working set over time, in `bins` equal stretches: distinct tokens that the requests of a stretch touch (each block counts
-- once per stretch), tokens seen for the first time, and live sessions (between their first and last request).
CREATE MACRO working_set(bins BIGINT := 60) AS TABLE
WITH spans AS (SELECT min(arrival_s) AS begin_s, max(arrival_s) AS final_s FROM selected WHERE prefix_tokens IS NOT NULL),
placed AS (
  SELECT row, session_id, full_blocks, hit_tokens, arrival_s, begin_s, final_s,
    least(bins - 1, floor((arrival_s - begin_s) / (final_s - begin_s) * bins))::BIGINT AS bin
  FROM selected, spans
  WHERE prefix_tokens IS NOT NULL AND arrival_s IS NOT NULL AND final_s > begin_s
),
again AS (
  SELECT p.bin, sum(r.blocks) AS blocks
  FROM placed p JOIN runs r ON r.request = p.row
  WHERE p.arrival_s - r.gap_s >= p.begin_s + p.bin * (p.final_s - p.begin_s) / bins
  GROUP BY p.bin
),
touched AS (
  SELECT bin, sum(full_blocks) AS blocks, sum(full_blocks - hit_tokens // getvariable('block_size')) AS fresh,
    any_value(begin_s) AS begin_s, any_value(final_s) AS final_s
  FROM placed GROUP BY bin
),
lives AS (SELECT min(bin) AS first_bin, max(bin) AS last_bin FROM placed WHERE session_id IS NOT NULL GROUP BY session_id)
SELECT
  begin_s + (touched.bin + 1) * (final_s - begin_s) / bins AS until_s,
  ((touched.blocks - coalesce(again.blocks, 0)) * getvariable('block_size'))::BIGINT AS touched_tokens, (fresh * getvariable('block_size'))::BIGINT AS new_tokens,
  (SELECT count(*) FROM lives WHERE first_bin <= touched.bin AND last_bin >= touched.bin) AS live_sessions
FROM touched LEFT JOIN again ON again.bin = touched.bin
ORDER BY touched.bin;
