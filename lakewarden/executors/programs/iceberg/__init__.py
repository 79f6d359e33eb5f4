"""Apache Iceberg's table services, by its own planners, runners and commits (docs/iceberg.md)."""
