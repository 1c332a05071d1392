-- The reuse runs of the selected requests: block i of a run hits in an LRU cache of C blocks where distance_blocks + i < C.
CREATE MACRO reuse_runs() AS TABLE
SELECT r.request, r.start_block, r.blocks, r.distance_blocks, r.last_request, r.gap_s
FROM runs r JOIN selected s ON r.request = s.row;
