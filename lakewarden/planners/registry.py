"""The formats Lakewarden can observe, by their word in the configuration."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.planners.formats.fake import FAKE
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.ports import TableFormat

FORMATS: Mapping[str, TableFormat] = {one.name: one for one in (HUDI, ICEBERG, FAKE)}
