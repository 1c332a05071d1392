"""The page Sessions: a list of them, one with its tower, a turn, and the prefixes that they share; a file each.

In: the question, and the cache that tokens hit or miss in. Out: tables and pictures whose figures are those of Why.
"""
