"""Readers of what gateways, observability tools, providers and engines log: one call, span or pair a record.

In: a log file. Out: requests made by `traces.calls`; failed attempts, cache answers and other spans are counted.
"""
