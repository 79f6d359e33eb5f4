"""Flink jobs of two releases of Paimon beside Lakewarden's care of their tables."""
