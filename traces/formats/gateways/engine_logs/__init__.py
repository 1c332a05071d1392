"""Engine logs: readers of what vLLM and SGLang log per request.

In: a log file. Out: requests with lengths, and sessions where the log names them.
"""
