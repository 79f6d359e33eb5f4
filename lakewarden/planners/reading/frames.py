"""What the daemon and a process that reads say to each other: a length, and a pickle.

The daemon believes a reader less than a reader believes the daemon: a reader decodes what strangers wrote. So from a
reader only values of the model's own types are taken, and no function is ever called.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

from lakewarden.planners.model import decision, instant, lock, timeline, view
from lakewarden.planners.model.errors import UnknownError
from lakewarden.planners.ports import Observation
from lakewarden.planners.reading import looks

LARGEST_BYTES = 256 * 2**20
"""A larger frame is taken for nonsense: the view of a table with a million instants has half of it."""

_LENGTH = struct.Struct("!Q")
_PLAIN = (frozenset, set, datetime, timedelta, timezone)


def _value_types() -> Mapping[tuple[str, str], type]:
    """Return the types that an answer is made of, by where they are defined. All of them are values that do nothing."""
    defined = (one for module in (decision, instant, lock, timeline, view, looks) for one in vars(module).values())
    own = {one for one in defined if isinstance(one, type) and (is_dataclass(one) or issubclass(one, Enum | tuple))}
    return {(one.__module__, one.__qualname__): one for one in (*own, Observation, *_PLAIN)}


def framed(value: Any) -> bytes:
    """Return a value as a frame."""
    content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(content)) + content


class Frames:
    """Takes bytes as they come, and gives back whole frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, content: bytes) -> None:
        """Take more bytes."""
        self._buffer += content

    def next(self) -> bytes | None:
        """Return the content of the oldest whole frame, if there is one. Raises UnknownError for a frame too large."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > LARGEST_BYTES:
            raise UnknownError(f"a frame of {length} bytes is larger than {LARGEST_BYTES}")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        content = bytes(memoryview(self._buffer)[_LENGTH.size : end])
        del self._buffer[:end]
        return content


def believed(content: bytes) -> Any:
    """Return the value that the daemon sent."""
    return pickle.loads(content)  # noqa: S301 - from the process that started us


def checked(content: bytes) -> Any:
    """Return the value that a reader sent. Raises UnknownError where it holds anything but values."""
    try:
        return _Values(io.BytesIO(content)).load()
    except Exception as nonsense:
        raise UnknownError(f"a reader sent what is no answer: {nonsense}") from nonsense


class _Values(pickle.Unpickler):
    """An unpickler that makes values of known types. It looks nothing up: a name may lead anywhere."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a type of which answers are made."""
        found = _VALUES.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} is no type of a value")
        return found


_VALUES = _value_types()
