"""Which partitions are compacted."""
