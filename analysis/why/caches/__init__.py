"""The cache that misses are explained for: one, busy with running requests, or several behind a routing policy."""
