"""Why prompts miss: the cause of every input token, what each session lost, where prompts differ, and what-ifs.

In: an opened dataset (`analysis.store`), a question, and the cache whose misses are explained (`caches`). Out: frames
and rows of plain values; nothing is drawn. `edited` builds the trees of what-ifs, `provider` compares reported reads.
"""
