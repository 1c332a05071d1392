"""Commands that ask a dataset: report, curve, query, misses, profile, compare.

In: a dataset and a question. Out: figures as tables, as JSON, as one HTML page or as a file.
"""
