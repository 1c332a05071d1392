"""Files in, dataset out: readers, the prefix tree, the dataset on disk."""

import os

# The allocator inside Polars (jemalloc) keeps what it freed on the account of the process. It reads this when Polars is
# first imported, so it stands here, before that.
os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")
