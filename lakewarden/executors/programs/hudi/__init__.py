"""Apache Hudi's table services, executed by Hudi's own Spark write client."""
