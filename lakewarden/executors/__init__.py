"""How a run is carried out. Knows Spark, not schedules."""
