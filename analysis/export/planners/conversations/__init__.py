"""Conversations: writers that give a load generator every session turn by turn, with filler text of the right length.

In: a warehouse and a question. Out: one file in the consumer's format.
"""
