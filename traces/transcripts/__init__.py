"""Turns the messages and counts of an agent's transcript into requests. All readers of agents use it.

In: content blocks and usage as an agent logs them (`parts`, `ledger`), put into calls in order (`turns`). Out: requests
whose prompts have the provider's lengths (`counted_prompts`), or the tokenizer's (`prompts`).
"""
