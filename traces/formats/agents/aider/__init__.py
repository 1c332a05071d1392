"""Aider: its chat history (Markdown) and its analytics log (JSON Lines).

In: either file. Out: chats, and a request for each message with the counts that Aider logged; there are no prompts.
"""
