"""What a workload costs at a provider's list prices, what each cause of loss costs, and what a cache could save.

In: requests with their model, counted tokens and cache reads; a table of dated prices. Out: US dollars per group.
"""
