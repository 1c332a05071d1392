"""Kimi Code and Kimi CLI: two products that log to a file of one name, `wire.jsonl`, in two shapes.

In: a session's wire.jsonl, and Kimi CLI's context.jsonl beside it. Out: its sessions and requests.
"""
