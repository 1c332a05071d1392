"""The page Compare: two datasets side by side (`compare`).

In: two datasets of the visit, block size and arrivals. Out: differences with their intervals, both curves, warnings.
"""
