"""OpenAI Codex: `rollout` reads a session's file, `counts` finds the calls among its token counters.

In: rollout-*.jsonl, plain or compressed. Out: a session with its forks and sub-agents, and its requests.
"""
