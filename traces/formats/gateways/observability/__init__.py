"""Observability: readers of spans and traces that monitoring tools export.

In: a source of their format. Out: sessions, requests and rejects.
"""
