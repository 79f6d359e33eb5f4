"""Apache Hudi, observed without a JVM."""
