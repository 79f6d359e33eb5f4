"""Apache Iceberg, read without a JVM (docs/iceberg.md)."""
