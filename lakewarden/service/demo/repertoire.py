"""The pieces that can be played, by format."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.demo.piece import Piece

REPERTOIRE: Mapping[str, str] = {
    "hudi": "lakewarden.service.demo.hudi",
    "iceberg": "lakewarden.service.demo.iceberg",
}
"""The module of each piece: one brings the foreign reader of its format, which the others do not need."""


def piece_of(name: str) -> Piece:
    """Return the piece of a format. Raises PermanentError where its reader is not installed."""
    try:
        piece: Piece = importlib.import_module(REPERTOIRE[name]).PIECE
    except ModuleNotFoundError as missing:
        raise PermanentError(
            f"there is no {missing.name}, by which the table would be read: install lakewarden[{name}]"
        ) from missing
    return piece
