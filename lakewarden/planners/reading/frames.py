"""The messages between the daemon and a reader process: a length, and a pickle.

A reader decodes content of unknown authors. So the daemon takes only values of the model's own types from a reader, and
no function is ever called.
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

from lakewarden.planners.model import decision, instant, proof, view
from lakewarden.planners.model.errors import UnknownError
from lakewarden.planners.ports import Observation
from lakewarden.planners.reading import observing

LARGEST_BYTES = 256 * 2**20
"""The largest frame that is accepted. The view of a table with a million instants has half of it."""

_LENGTH = struct.Struct("!Q")
_PLAIN = (frozenset, set, datetime, timedelta, timezone)


def _value_types() -> Mapping[tuple[str, str], type]:
    """Return the types that an answer consists of, by the modules that define them. All are plain values."""
    defined = (var for module in (decision, instant, proof, view, observing) for var in vars(module).values())
    own = {cls for cls in defined if isinstance(cls, type) and (is_dataclass(cls) or issubclass(cls, Enum | tuple))}
    return {(cls.__module__, cls.__qualname__): cls for cls in (*own, Observation, *_PLAIN)}


def framed(value: Any) -> bytes:
    """Return a value as a frame."""
    content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(content)) + content


class Frames:
    """Takes bytes as they come, and returns whole frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, content: bytes) -> None:
        """Take more bytes."""
        self._buffer += content

    def next(self) -> bytes | None:
        """Return the content of the oldest whole frame, if there is one. Raises UnknownError for a frame that is too
        large.
        """
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
    return pickle.loads(content)  # noqa: S301 - from the process that started this one


def checked(content: bytes) -> Any:
    """Return the value that a reader sent. Raises UnknownError if it contains anything but known values."""
    try:
        return _Values(io.BytesIO(content)).load()
    except Exception as nonsense:
        raise UnknownError(f"a reader sent what is not an answer: {nonsense}") from nonsense


class _Values(pickle.Unpickler):
    """An unpickler that creates values of known types only. It imports no name from the content."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a type that answers consist of."""
        value_type = _VALUES.get((module, name))
        if value_type is None:
            raise pickle.UnpicklingError(f"{module}.{name} is not a type of a value")
        return value_type


_VALUES = _value_types()
