"""The provider's cache: what it reported against what was achievable, with one cause for every loss.

In: recorded cache reads and writes, and the longest matches. Out: rows per request or group.
"""
