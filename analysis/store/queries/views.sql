-- The tables that every query reads, and the view of the selected requests.
-- Session variables hold the paths of the files and the parameters of the question; analysis.store.warehouse binds them.
-- analysis.store.axes generates the SQL for {filters}, {group} and {order}.
CREATE VIEW facts AS
SELECT *,
  CAST(timezone(coalesce(getvariable('timezone'), 'UTC'), started_at) AS DATE)::VARCHAR AS day,
  session_id IS NOT NULL AND parent_session_id IS NULL AND coalesce(role, 'main') NOT IN ('subagent', 'side') AS in_main_session
FROM read_parquet(getvariable('facts_file'));

CREATE VIEW runs AS SELECT * FROM read_parquet(getvariable('runs_file'));

-- The requests in the window that pass the filters. An unobserved head is the start of a prompt that no log contains.
-- shared_head: tokens that hit only because the request's unobserved head counts as shared with other sessions.
-- private_head: tokens that would also hit if all sessions of one agent, version and role had the same head.
CREATE VIEW selected AS
SELECT *,
  least(hit_tokens, head_tokens_unobserved) - least(same_session_hit_tokens, head_tokens_unobserved) AS shared_head,
  CASE
    WHEN transition = 'first'
      AND row_number() OVER (PARTITION BY agent, agent_version, role, transition ORDER BY rank) > 1
    THEN greatest(0, getvariable('block_size') * (head_tokens_unobserved // getvariable('block_size')) - hit_tokens) ELSE 0
  END AS private_head
FROM facts
WHERE (getvariable('first_rank') IS NULL OR rank >= getvariable('first_rank'))
  AND (getvariable('from_s') IS NULL OR arrival_s >= getvariable('from_s'))
  AND (getvariable('to_s') IS NULL OR arrival_s < getvariable('to_s'))
{filters};

-- Selected requests with the name of their group on an axis; groups are ordered by min(group_order), then by name.
CREATE MACRO grouped(axis) AS TABLE
SELECT *, coalesce({group}, 'unknown') AS "group", {order} AS group_order
FROM selected;
