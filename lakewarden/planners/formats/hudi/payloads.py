"""The content of a timeline's files: Avro with its writer's schema, JSON, or nothing at all (docs/hudi.md)."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro

_AVRO = b"Obj\x01"


MALFORMED = (KeyError, TypeError, AttributeError, ValueError)
"""What taking a record apart raises if it is whole but not what Hudi writes."""


class UnreadableError(Exception):
    """A payload that is half-written or damaged."""


def decode(content: bytes) -> Mapping[str, Any] | None:
    """Return the one record of a payload, or None if it is empty.

    The first bytes tell the encoding, which is sturdier than switching on the table's version. Raises
    UnreadableError for content that ends early or makes no sense.
    """
    if not content:
        return None
    record = _from_avro(content) if content.startswith(_AVRO[: len(content)]) else _from_json(content)
    if not isinstance(record, Mapping):
        raise UnreadableError("its content is no record")
    return record


def _from_avro(content: bytes) -> Any:
    try:
        records = list(fastavro.reader(io.BytesIO(content)))  # to the end: the last sync marker must be there
    except Exception as error:  # damaged bytes raise nearly anything in a decoder
        raise UnreadableError("its Avro content is half-written or damaged") from error
    if len(records) != 1:
        raise UnreadableError("its Avro content is half-written")
    return records[0]


def _from_json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise UnreadableError("its content is half-written or damaged") from error
