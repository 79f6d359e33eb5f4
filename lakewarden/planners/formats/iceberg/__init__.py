"""The format Apache Iceberg, read without a JVM (docs/iceberg.md)."""

from lakewarden.planners.formats.iceberg.format import ICEBERG, IcebergFormat

__all__ = ["ICEBERG", "IcebergFormat"]
