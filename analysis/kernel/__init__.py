"""Arrays only: heavy paths, touch stacks, reuse runs, sorted runs, transitions. No files, no frames of a dataset.

In: the prefix tree, each request's leaf, the order, times. Out: reuse runs and what a request did to its session.
"""
