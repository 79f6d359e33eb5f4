"""Plain directories of files, as Flink's filesystem and Hive sinks, Spark and others leave them: one TableFormat."""

from lakewarden.planners.formats.directory.format import DIRECTORY

__all__ = ["DIRECTORY"]
