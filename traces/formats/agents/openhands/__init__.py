"""OpenHands: `sources` finds out which of its logs an input is; `events`, `sdk` and `calls` read one kind each.

In: event streams of versions 0 and 1, logs of single calls, evaluation outputs. Out: sessions and requests.
"""
