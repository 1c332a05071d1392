"""Commands about replicas that serve a workload: kv-budget, interactivity, route.

In: a model, GPUs, policies, and a dataset where one is needed. Out: capacities, speeds, hit rates and loads.
"""
