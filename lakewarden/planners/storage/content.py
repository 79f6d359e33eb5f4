"""What every storage does alike with what it was given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakewarden.planners.model.errors import PermanentError, TemporaryError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = (datetime(9000, 1, 1, tzinfo=UTC) - EPOCH).total_seconds()


class TooLargeError(PermanentError):
    """The file or folder is there, and larger than was asked for."""


class StoreRefusedError(TemporaryError):
    """The store let us not in, or found no credentials to ask with: those may be there by the next time."""


def refused(location: str, said: object) -> StoreRefusedError:
    """Return the error of a store that turned us away."""
    return StoreRefusedError(f"{location} cannot be read: its store refuses us: {said}")


def too_many(location: str, most: int) -> TooLargeError:
    """Return the error for a folder of more than `most` entries."""
    return TooLargeError(f"{location} has more than {most} entries")


def within(limit: int, content: bytes, location: str) -> bytes:
    """Return `content`. Raises TooLargeError if it is larger than `limit` bytes."""
    if len(content) > limit:
        raise too_large(location, limit)
    return content


def too_large(location: str, limit: int) -> TooLargeError:
    """Return the error of a file that has more than `limit` bytes."""
    return TooLargeError(f"{location} is larger than {limit} bytes")


def moment(seconds: float) -> datetime:
    """Return the time that is so many seconds after the epoch: the nearest that can be reckoned with, where a disk or a
    store says one before it, or after all calendars.
    """
    return EPOCH + timedelta(seconds=min(max(seconds, 0.0), _LATEST))
