"""What the readers of agents share: from messages and counts to requests.

In: content blocks and usage as an agent logs them (`parts`, `ledger`), put into calls in order (`turns`). Out: requests
whose prompts have the provider's lengths (`counted_prompts`), or the tokenizer's (`prompts`).
"""
