"""The replay itself: an event loop over arrivals, admissions, computed prompts and finished answers.

In: requests and the rules of a fleet as arrays of records (`books`). Out: an `Outcome`. `loop` is the event loop,
`replica_cache` holds the prefix caches of all replicas over one tree.
"""
