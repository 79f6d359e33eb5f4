"""Apache Hudi's table services, carried out by Hudi's own Spark write client."""
