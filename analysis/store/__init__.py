"""Opens a dataset and answers questions about it in SQL: questions, axes, arrival models, facts, the query catalogue.

In: a dataset and a `Question`. Out: polars frames. `connection` is the only module that talks to DuckDB.
"""
