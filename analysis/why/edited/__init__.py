"""What-ifs: the workload with some text removed, constant, moved to the end, or with changes of its history undone.

In: the prefix tree, what changes between consecutive prompts, and the longest matches. Out: a new prefix tree of the
edited prompts, whose hits the reuse kernel counts, and the table of all what-ifs (`what_ifs`).
"""
