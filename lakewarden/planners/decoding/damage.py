"""The error of every decoder."""

from __future__ import annotations


class DamagedError(Exception):
    """The content is half-written or damaged, or asks for more than any sound file does. The message begins with "its",
    as in "its Avro schema is recursive".
    """


class OversizedError(DamagedError):
    """The content may be sound, and it is more than Lakewarden decodes."""
