"""The demo of each format. Its module is imported only when needed, so that `lakewarden --help` answers at once."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakewarden.planners.model.errors import PermanentError, installing

if TYPE_CHECKING:
    from lakewarden.demo.format_demo import FormatDemo

DEMOS: Mapping[str, str] = {
    "hudi": "lakewarden.demo.formats.hudi.demo",
    "iceberg": "lakewarden.demo.formats.iceberg.demo",
    "paimon": "lakewarden.demo.formats.paimon.demo",
    "directory": "lakewarden.demo.formats.directory.demo",
}
"""The module of each demo. A module imports the foreign reader of its format, which the other formats do not need."""


def demo_of(name: str) -> FormatDemo:
    """Return the demo of a format. Raises PermanentError if its reader is not installed."""
    try:
        format_demo: FormatDemo = importlib.import_module(DEMOS[name]).DEMO
    except ModuleNotFoundError as missing:
        raise PermanentError(
            f"there is no {missing.name}, which the demo needs to read the table: {installing('server', 'demo')}"
        ) from missing
    return format_demo
