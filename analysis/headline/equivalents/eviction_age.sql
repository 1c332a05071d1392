{paths},
touches AS (  -- block j of a path belongs to the node that holds its last token
  SELECT rank, node,
    unnest(range(start_token // getvariable('block_size'), end_token // getvariable('block_size'))) AS j
  FROM path JOIN prefixes ON prefix_id = node
),
states AS (  -- after each arrival `now`: when every block was touched last
  SELECT f.rank AS now, node, j, max(t.rank) AS last_rank
  FROM facts f JOIN touches t ON t.rank <= f.rank GROUP BY f.rank, node, j
),
places AS (SELECT *, row_number() OVER (PARTITION BY now ORDER BY last_rank DESC, j) AS place FROM states),
gone AS (SELECT node, j, last_rank, min(now) AS now FROM places WHERE place > {capacity} GROUP BY node, j, last_rank)
SELECT count(*) * getvariable('block_size') AS evicted_tokens,
  unnest(quantile_disc(e.arrival_s - s.arrival_s, [0.1, 0.5, 0.9])) AS age_s
FROM gone JOIN selected s ON s.rank = last_rank JOIN facts e ON e.rank = now
