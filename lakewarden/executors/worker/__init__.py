"""The process that owns one JVM and its SparkSession, and what it needs before Spark starts."""
