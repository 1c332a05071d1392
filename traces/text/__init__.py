"""Text of prompts: what content blocks are (`blocks`, `messages`), and how many tokens they have (`tokens`, `lengths`).

In: messages of any provider. Out: their parts in order, token counts, and shares of a length that the provider counted.
"""
