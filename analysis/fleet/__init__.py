"""Many replicas and a router: a trace replayed over a fleet.

In: a dataset and a question as arrays, a policy, replicas, capacity. Out: who served each request, hit rate and load
side by side. Start at `routing.replay`; `grid` compares many replays; policies are in `routers/`.
"""
