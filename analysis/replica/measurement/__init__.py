"""What a run measured, beside what the trace predicts for it.

In: results of AIPerf, of the benchmarks of vLLM and SGLang, or Prometheus scrapes; a dataset. Out: rows that compare.
"""
