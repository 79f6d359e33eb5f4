"""The process that owns one JVM and its SparkSession, and its preparation before Spark starts."""
