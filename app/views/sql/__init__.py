"""The page SQL: one read-only SELECT over the open dataset (`sql`).

In: the question of the visit, a statement. Out: its rows, a simple chart, files.
"""
