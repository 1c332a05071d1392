"""Turns a logged request and its answer into a request of the dataset, with the prompt that was sent.

In: request bodies, answers, streamed events and spans as gateways log them, of any provider. Out: `Request` records
whose prompts say what they add to the longest earlier prompt that they begin with.
"""
