"""The cache whose misses are explained: one, or several replicas that a routing policy sends requests to.

In: `Cache` and a prepared question. Out: how many leading blocks of each prompt the cache holds (`cache_depths`).
"""
