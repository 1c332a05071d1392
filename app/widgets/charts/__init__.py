"""Charts by kind: bars, lines, points, maps. Nothing is computed here but where things are drawn.

In: frames of at most `scales.MOST_ROWS` rows, aggregated in SQL. Out: Altair charts, in the colours of `scales`.
"""
