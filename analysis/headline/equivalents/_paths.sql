WITH RECURSIVE path AS (
  SELECT "row", rank, prefix_id AS node FROM facts WHERE prefix_id IS NOT NULL
  UNION ALL
  SELECT "row", rank, parent_id FROM path JOIN prefixes ON prefix_id = node WHERE node > 0
)
