"""How a run is carried out. This package knows Spark, and no schedules."""
