"""Readers of traces that hold lengths and times only: no texts and no block ids.

In: CSV, JSONL or Parquet. Out: requests without prompts, from which shapes and rates can be computed.
"""
