"""The provider's cache: compares reported with achievable reads, and gives one cause for every loss.

In: recorded cache reads and writes, and the longest matches. Out: rows per request or group.
"""
