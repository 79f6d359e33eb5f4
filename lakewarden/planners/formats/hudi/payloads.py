"""The content of a timeline's files: Avro with its writer's schema, JSON, or nothing at all (docs/hudi.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakewarden.planners.decoding.avro import MAGIC, opened
from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_text import from_json

MALFORMED = (KeyError, TypeError, AttributeError, ValueError, OverflowError, IndexError)
"""What taking a record apart raises if it is whole but not what Hudi writes."""


class UnreadableError(Exception):
    """A payload that is half-written or damaged."""


def decode(content: bytes) -> Mapping[str, Any] | None:
    """Return the one record of a payload, or None if it is empty.

    The first bytes tell the encoding, which is sturdier than switching on the table's version. Raises
    UnreadableError for content that ends early, makes no sense, or asks for more time or memory than a sound one.
    """
    if not content:
        return None
    try:
        record = opened(content).record() if content.startswith(MAGIC[: len(content)]) else from_json(content)
    except DamagedError as error:
        raise UnreadableError(str(error)) from error
    if not isinstance(record, Mapping):
        raise UnreadableError("its content is no record")
    return record
