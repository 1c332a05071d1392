{paths},
seen AS (SELECT node, min(rank) AS first_rank FROM path GROUP BY node),
matches AS (  -- the longest match of each prompt with any earlier one
  SELECT "row", max(CASE WHEN first_rank < rank THEN end_token ELSE 0 END) AS tokens
  FROM path JOIN seen USING (node) JOIN prefixes ON prefix_id = node
  GROUP BY "row"
)
