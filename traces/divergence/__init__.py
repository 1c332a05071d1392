"""Divergence: where consecutive prompts of a session differ, the kind of change, and what is equal again after it.

In: the prefix tree with its units, the requests in their sessions, and the texts kept during an ingest. Out: the table
`divergences`, which contains lengths and kinds and no text. `kinds` is the table of tests that name a change.
"""
