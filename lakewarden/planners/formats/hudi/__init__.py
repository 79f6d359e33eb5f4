"""Apache Hudi, observed without a JVM."""

from lakewarden.planners.formats.hudi.format import HUDI, THOROUGH, HudiFormat

__all__ = ["HUDI", "THOROUGH", "HudiFormat"]
