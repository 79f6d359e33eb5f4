"""The rows of each writer: a function of the batch's number, from 1. So a writer can prepare a later batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

from lakewarden.demo.writers.orders import Row
from live.iceberg.together.tables import BRANCH, Name, order

_EACH = 4
_LIVING = 60
"""The ids that an upsert job writes again and again."""

_PUBLISHED = 1_000_000
"""Ids from here on come from a staged snapshot, each once."""

PUBLISHED_EVERY = 10
RENAMED_BEFORE = 20
"""The batch before which the table is renamed."""

Stream = Callable[[int], tuple[Row, ...]]


def appended(batch: int) -> tuple[Row, ...]:
    """Return rows that no other batch has."""
    return tuple(order(batch * _EACH + n, batch) for n in range(_EACH))


def upserted(batch: int) -> tuple[Row, ...]:
    """Return changes of rows that are changed again later. A tenth of the batches is published from a staged snapshot
    and adds rows. Another tenth only deletes. The rest replaces rows.
    """
    if publishes(batch):
        return tuple(order(_PUBLISHED + batch * _EACH + n, batch) for n in range(_EACH))
    first = batch * 7
    ids = sorted({(first + n * 11) % _LIVING for n in range(_EACH)})
    return tuple(order(id_, batch, deleted=deletes(batch)) for id_ in ids)


def publishes(batch: int) -> bool:
    """Whether a batch of an upsert job publishes a staged snapshot."""
    return batch % PUBLISHED_EVERY == 0


def deletes(batch: int) -> bool:
    """Whether a batch of an upsert job deletes and adds nothing."""
    return batch % PUBLISHED_EVERY == 1 and batch > 1


def place(name: Name, batch: int) -> tuple[Name, str]:
    """Return the table and the branch where a batch of the writer of `name` goes."""
    if name is Name.BRANCHED and batch % 2 == 0:
        return name, BRANCH
    if name is Name.MOVING and (batch < RENAMED_BEFORE or batch % 2 == 0):
        return Name.MOVED, "main"
    return name, "main"


STREAMS: Mapping[Name, Stream] = {
    Name.UPSERTS: upserted,
    Name.STAGED: appended,
    Name.BRANCHED: appended,
    Name.MOVING: appended,
    Name.STREAMED: appended,
}


def batches(stream: Stream) -> Iterator[tuple[Row, ...]]:
    """Yield the batches of a stream, for ever."""
    return (stream(batch) for batch in itertools.count(1))
