"""How a replica is run: how many sessions at once, which of them are admitted, what its cache keeps.

In: the trace, a capacity. Out: hit rate, tokens computed again, waiting time for each way.
"""
