"""The metadata table of a Hudi table, its indexes, buckets and file groups."""
