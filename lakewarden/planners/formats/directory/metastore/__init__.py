"""What a Hive metastore lists of the partitions of a directory."""
