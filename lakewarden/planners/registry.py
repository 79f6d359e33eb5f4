"""The formats that Lakewarden can observe, by their name in the configuration."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.planners.formats.directory import DIRECTORY
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.formats.paimon import PAIMON
from lakewarden.planners.ports import TableFormat

RECOGNISED: Mapping[str, TableFormat] = {table_format.name: table_format for table_format in (HUDI, ICEBERG, PAIMON)}
"""The formats with metadata by which their tables are recognised."""

FORMATS: Mapping[str, TableFormat] = {**RECOGNISED, DIRECTORY.name: DIRECTORY}
