"""Sessions one by one: a table of them, the turns of one, a turn; and the prefix tree as rectangles.

In: a question and the misses of the requested cache (`analysis.why`). Out: frames whose tokens are the same figures.
"""
