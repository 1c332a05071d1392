"""Chat logs without usage: messages in order, one answer a call, lengths from the tokenizer.

In: logs of agents and training sets. Out: sessions and requests. To add one, copy `droid.py`.
"""
