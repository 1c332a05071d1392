"""The headline figures: the report, curves over capacity and TTL, intervals, the words that define each figure.

In: an opened dataset and a question. Out: dicts and frames with the keys that the command line prints.
"""
