"""The page Why: where the tokens went, sessions to look at, transitions, the provider, what-ifs, time; a file each.

In: the question, and the cache that `controls` asks for. Out: tables and charts, each with its `misses` command.
"""
