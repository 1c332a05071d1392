"""Divergence: where the consecutive prompts of a session part, by what kind of change, and what is alike after it.

In: the prefix tree with its units, the requests in their sessions, and texts that are at hand during an ingest. Out:
the table `divergences`, which holds lengths and kinds and no text. `kinds` is the table of tests that name a change.
"""
