"""Flink's filesystem sink beside Lakewarden's care of its directory."""
