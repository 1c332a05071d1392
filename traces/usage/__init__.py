"""The rule book of token usage: every provider's counts become input, cache read, cache write, output, reasoning.

In: usage objects and rows of counts as tools log them. Out: `Usage` with inclusive counts, and the evidence for what
the figures of a source mean. `names` knows the names, `meaning` the arithmetic, `evidence` what a whole source shows.
"""
