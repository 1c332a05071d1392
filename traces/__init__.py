"""Files in, dataset out: readers, the prefix tree, the dataset on disk."""
