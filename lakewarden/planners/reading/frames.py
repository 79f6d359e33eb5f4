"""What the daemon and a process that reads say to each other: a length, and a pickle.

The daemon believes a reader less than a reader believes the daemon: a reader decodes what strangers wrote. So from a
reader only values of the planners' own types are taken, and no function is ever called.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

from lakewarden.planners.model.errors import UnknownError

LARGEST_BYTES = 256 * 2**20
"""A larger frame is taken for nonsense: the view of a table with a million instants has half of it."""

_LENGTH = struct.Struct("!Q")
_OURS = "lakewarden.planners."
_PLAIN = {
    "builtins": frozenset({"frozenset", "set", "slice"}),
    "datetime": frozenset({"datetime", "timedelta", "timezone", "date"}),
    "zoneinfo": frozenset({"ZoneInfo"}),
    "pathlib": frozenset({"PosixPath"}),
}


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
    """An unpickler that makes values of known types."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a type of the planners, or one of a few plain ones."""
        known = module.startswith(_OURS) or name in _PLAIN.get(module, ())
        found = super().find_class(module, name) if known else None
        if not isinstance(found, type):
            raise pickle.UnpicklingError(f"{module}.{name} is no type of a value")
        return found
