"""Source: what an input is before anyone knows its format.

In: paths, archives, compressed streams, databases. Out: `Source`, its head for detection, and its lines, rows and times
within the limits of `limits.py`.
"""
