"""What a directory asks of a session: nothing. Spark reads its files by itself."""

from __future__ import annotations

from lakewarden.executors.on_spark import OnSpark

DIRECTORY = OnSpark()
