"""Apache Hudi, observed without a JVM."""

from lakewarden.planners.formats.hudi.format import HUDI, HudiFormat

__all__ = ["HUDI", "HudiFormat"]
