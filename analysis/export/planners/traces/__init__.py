"""Traces: writers that give a consumer every request with its block ids, made from the prefix tree.

In: a warehouse and a question. Out: one file in the consumer's format.
"""
