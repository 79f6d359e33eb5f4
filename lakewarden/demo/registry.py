"""The pieces that can be played, by format."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from lakewarden.demo.format_demo import FormatDemo
from lakewarden.planners.model.errors import PermanentError

REPERTOIRE: Mapping[str, str] = {
    "hudi": "lakewarden.demo.formats.hudi.demo",
    "iceberg": "lakewarden.demo.formats.iceberg.demo",
}
"""The module of each piece: one brings the foreign reader of its format, which the others do not need."""


def demo_of(name: str) -> FormatDemo:
    """Return the piece of a format. Raises PermanentError where its reader is not installed."""
    try:
        piece: FormatDemo = importlib.import_module(REPERTOIRE[name]).PIECE
    except ModuleNotFoundError as missing:
        raise PermanentError(
            f"there is no {missing.name}, by which the table would be read: install lakewarden[{name}]"
        ) from missing
    return piece
