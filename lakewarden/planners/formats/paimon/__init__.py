"""Apache Paimon, observed without a JVM (docs/paimon.md)."""

from lakewarden.planners.formats.paimon.format import PAIMON, PaimonFormat

__all__ = ["PAIMON", "PaimonFormat"]
