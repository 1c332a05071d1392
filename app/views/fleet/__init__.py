"""The page Routing: the form (`choices`), the replays (`runs`), what they showed (`results`), and luck beside them.

In: the whole trace, policies and fleets. Out: hit rate against load by policy, and which fleets keep an objective.
"""
