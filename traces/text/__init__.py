"""Text of prompts: the kinds of content blocks (`blocks`, `messages`), and their lengths in tokens (`tokens`,
`lengths`).

In: messages of any provider. Out: their parts in order, token counts, and shares of a length that the provider counted.
"""
