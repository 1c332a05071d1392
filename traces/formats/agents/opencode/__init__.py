"""opencode: `sessions` makes prompts, `storage` finds messages and parts wherever opencode kept them.

In: the storage folder, opencode.db of both versions, exports, event streams. Out: sessions and requests.
"""
