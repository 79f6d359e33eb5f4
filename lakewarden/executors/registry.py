"""What each format needs of Spark, by the format's name in the configuration. Its programs are in programs/registry."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.executors.on_spark import OnSpark
from lakewarden.executors.programs.directory.on_spark import DIRECTORY
from lakewarden.executors.programs.hudi.on_spark import HUDI
from lakewarden.executors.programs.iceberg.on_spark import ICEBERG
from lakewarden.executors.programs.paimon.on_spark import PAIMON

ON_SPARK: Mapping[str, OnSpark] = {
    "hudi": HUDI,
    "iceberg": ICEBERG,
    "paimon": PAIMON,
    "directory": DIRECTORY,
}
