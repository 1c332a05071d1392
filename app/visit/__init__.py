"""One visit of the browser app: what is open, the question that the sidebar asks, what was sent, and where it lies.

In: the link, the sidebar, uploads. Out: `question.ask()`, the question of a page; `desk`, the open dataset and its
answers; messages instead of errors.
"""
