"""Readers of tables: any JSONL, JSON array, CSV, TSV or Parquet whose columns are named as people name them.

In: rows. Out: one request a row, with its prompt where a column holds one and its counts where columns or usage objects
hold them. AIBrix and Baseten have readers of their own.
"""
