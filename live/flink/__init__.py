"""Real Flink jobs beside Lakewarden: stopped with a savepoint, and restored after our care of their tables."""
