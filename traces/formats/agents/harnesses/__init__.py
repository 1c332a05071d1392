"""Evaluation harnesses, which log the exact prompts or the whole history of their runs.

In: trajectories and logs of Harbor (ATIF), Inspect, SWE-agent and mini-swe-agent. Out: sessions and requests.
"""
