"""Traces of block ids: the prompts are known by the hashes of their blocks, not by their text.

In: one request a line (Mooncake and relatives: `hash_rows`), or a session a file (Weka). Out: requests with `Blocks`.
"""
