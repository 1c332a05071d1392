-- The tables that every query reads, and what is selected of them.
-- Session variables say where the files are and which requests count; they are bound by analysis.warehouse.
CREATE OR REPLACE VIEW facts AS
SELECT *, CAST(timezone(coalesce(getvariable('timezone'), 'UTC'), started_at) AS DATE)::VARCHAR AS day
FROM read_parquet(getvariable('facts_file'));

CREATE OR REPLACE VIEW runs AS SELECT * FROM read_parquet(getvariable('runs_file'));

-- One axis of a request, by name.
CREATE OR REPLACE MACRO axis_of(
  axis, trajectory_type, role, trigger, work, transition, model, agent, source, session_id, day, turn_group, gap_group, length_group
) AS
CASE axis
  WHEN 'all' THEN 'all'
  WHEN 'trajectory_type' THEN trajectory_type
  WHEN 'role' THEN role
  WHEN 'trigger' THEN trigger
  WHEN 'work' THEN work
  WHEN 'transition' THEN transition
  WHEN 'model' THEN model
  WHEN 'agent' THEN agent
  WHEN 'source' THEN source
  WHEN 'session' THEN session_id::VARCHAR
  WHEN 'day' THEN day
  WHEN 'turn' THEN turn_group
  WHEN 'gap' THEN gap_group
  WHEN 'prompt_length' THEN length_group
END;

-- Requests that the window and the filters leave.
CREATE OR REPLACE VIEW selected AS
SELECT * FROM facts
WHERE (getvariable('first_rank') IS NULL OR rank >= getvariable('first_rank'))
  AND (getvariable('from_s') IS NULL OR arrival_s >= getvariable('from_s'))
  AND (getvariable('to_s') IS NULL OR arrival_s < getvariable('to_s'))
  AND (getvariable('where_trajectory_type') IS NULL OR list_contains(getvariable('where_trajectory_type'), coalesce(trajectory_type, 'unknown')))
  AND (getvariable('where_role') IS NULL OR list_contains(getvariable('where_role'), coalesce(role, 'unknown')))
  AND (getvariable('where_trigger') IS NULL OR list_contains(getvariable('where_trigger'), coalesce(trigger, 'unknown')))
  AND (getvariable('where_work') IS NULL OR list_contains(getvariable('where_work'), coalesce(work, 'unknown')))
  AND (getvariable('where_transition') IS NULL OR list_contains(getvariable('where_transition'), coalesce(transition, 'unknown')))
  AND (getvariable('where_model') IS NULL OR list_contains(getvariable('where_model'), coalesce(model, 'unknown')))
  AND (getvariable('where_agent') IS NULL OR list_contains(getvariable('where_agent'), coalesce(agent, 'unknown')))
  AND (getvariable('where_source') IS NULL OR list_contains(getvariable('where_source'), coalesce(source, 'unknown')))
  AND (getvariable('where_session') IS NULL OR list_contains(getvariable('where_session'), coalesce(session_id::VARCHAR, 'unknown')))
  AND (getvariable('where_day') IS NULL OR list_contains(getvariable('where_day'), coalesce(day, 'unknown')))
  AND (getvariable('where_turn') IS NULL OR list_contains(getvariable('where_turn'), coalesce(turn_group, 'unknown')))
  AND (getvariable('where_gap') IS NULL OR list_contains(getvariable('where_gap'), coalesce(gap_group, 'unknown')))
  AND (getvariable('where_prompt_length') IS NULL OR list_contains(getvariable('where_prompt_length'), coalesce(length_group, 'unknown')));

-- Selected requests with the name of their group on an axis.
CREATE OR REPLACE MACRO grouped(axis) AS TABLE
SELECT *, coalesce(axis_of(axis, trajectory_type, role, trigger, work, transition, model, agent, source, session_id, day,
                           turn_group, gap_group, length_group), 'unknown') AS "group"
FROM selected;
