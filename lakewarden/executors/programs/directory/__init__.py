"""The table services of plain directories. They need no Spark, and run where all runs do."""
