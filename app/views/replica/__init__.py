"""The page Hardware: does it fit, how many sessions, how fast, what does a change buy; a file each.

In: a model and GPUs (`choices`), with or without a dataset. Out: figures with formulas and sources.
"""
