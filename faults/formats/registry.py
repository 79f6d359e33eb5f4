"""The trial of each format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from faults.formats.directory.trial import DirectoryTrial
from faults.formats.hudi.trial import HudiTrial
from faults.formats.iceberg.trial import IcebergTrial
from faults.formats.paimon.trial import PaimonTrial
from faults.formats.trial import FormatTrial

TRIALS: Mapping[str, Callable[[], FormatTrial]] = {
    "hudi": HudiTrial,
    "iceberg": IcebergTrial,
    "directory": DirectoryTrial,
    "paimon": PaimonTrial,
}
"""How the trial of a format is made. Each trial is used once."""
