"""The page Data: ways in, the receipt of what is open, what was not used, the formats that can be read.

In: the demo, uploads, paths of this server. Out: an open dataset, or the reason why there is none and a way on.
"""
