"""Profiles: writers that give a consumer the workload as distributions.

In: a profile or a warehouse. Out: one file in the consumer's format.
"""
