"""The programs of each format, by the format's name in the configuration. Imported inside a session worker only."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.executors.contract import FormatPrograms
from lakewarden.executors.programs.directory.programs import DIRECTORY
from lakewarden.executors.programs.hudi.programs import HUDI
from lakewarden.executors.programs.iceberg.programs import ICEBERG
from lakewarden.executors.programs.paimon.programs import PAIMON

PROGRAMS: Mapping[str, FormatPrograms] = {
    "hudi": HUDI,
    "iceberg": ICEBERG,
    "paimon": PAIMON,
    "directory": DIRECTORY,
}
