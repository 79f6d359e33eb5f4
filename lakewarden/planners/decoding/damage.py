"""What every decoder raises."""

from __future__ import annotations


class DamagedError(Exception):
    """The content is half-written or damaged, or asks for more than any sound file does: said of `it`, as in "its Avro
    schema is recursive".
    """
