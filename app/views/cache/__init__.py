"""The page Cache: sizes (`capacity`), sessions at once (`at_once`), what leaves first (`eviction`).

In: the question of the visit. Out: hit rates by capacity, TTL, tier, sessions at once and eviction rule.
"""
