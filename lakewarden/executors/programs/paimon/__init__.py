"""The table services of Apache Paimon, by its core API (docs/paimon.md). They need no Spark tasks."""
