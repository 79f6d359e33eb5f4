"""The formats in the processes of a test: those of the product, and the fake format."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from tests.support.doubles.fake import FAKE

TEST_FORMATS: Mapping[str, TableFormat] = {**FORMATS, FAKE.name: FAKE}
