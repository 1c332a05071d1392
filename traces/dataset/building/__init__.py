"""Records to tables.

In: records of inputs, one input after the other, or a dataset that is appended to. Out: the frames of every table and
the private files with which more can be appended.
"""
