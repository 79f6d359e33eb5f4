"""Incremental readers that are declared in a table's options: their positions, and what they still need.

A reader at a position reads what was committed after it: by requested time in layout 1, by completion time in layout 2
(`HoodieStreamSourceV1`, `HoodieStreamSourceV2`). Everything from the oldest unread commit on has to stay, files and
instants alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, assert_never

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_text import from_json
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action
from lakewarden.planners.formats.hudi.options.service_options import CleanPolicy
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions, IncrementalReader
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import Blocker, ReaderPosition
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import format_duration
from lakewarden.planners.storage.locations import canonical_location, is_in_catalog

LOOKED_AT = timedelta(minutes=1)
"""A reader moves on while the timeline does not change, so its position is read at least this often."""

_POSITION = re.compile(r"\d{14,17}", re.ASCII)
_BEGINNING = "00000000000000"
"""`HoodieSourceOffset.INIT_OFFSET`: nothing was read yet."""

_BATCH = re.compile(r"\d{1,18}", re.ASCII)
_OFFSET = ("offsetCommitTime", "commitTime")
"""Keys of `HoodieSourceOffset`: since 1.0, and before."""

_LARGEST = 2**20


def misread(table: Table, options: HudiTableOptions) -> str | None:
    """Return why the needs of the declared readers cannot be kept; None if they can."""
    clean = table.policies.get(Service.CLEAN)
    counted = None if clean is None else getattr(clean.options, "policy", None)
    if options.readers and counted is CleanPolicy.KEEP_LATEST_FILE_VERSIONS:
        return "a clean by KEEP_LATEST_FILE_VERSIONS keeps no commit for a reader: let it count commits or hours"
    names = [one.name for one in options.readers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return f"two readers have the name {twice}"
    for one in options.readers:
        place = one.checkpoint or one.position
        if place is not None and not is_in_catalog(table.location) and _store_of(place) != _store_of(table.location):
            return f"reader {one.name} keeps its position in another store than the table's, which is not read"
    return None


def _store_of(location: str) -> str:
    scheme, separator, rest = location.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if separator else ""


def read_positions(
    readers: Iterable[IncrementalReader], timeline: Timeline, storage: Storage, *, now: datetime
) -> tuple[ReaderPosition, ...]:
    """Return the position of each reader. If a position cannot be read, it says why, and the reader needs
    everything.
    """
    commits = [i for i in timeline.instants if not i.pending and Action(i.action).completed_as in COMMITS]
    return tuple(_read(reader, commits, storage, now) for reader in readers)


def _read(reader: IncrementalReader, commits: Sequence[Instant], storage: Storage, now: datetime) -> ReaderPosition:
    if reader.longest_lag is not None:
        since = now - reader.longest_lag
        unread = [one for one in commits if (one.completed_at or one.requested_at) >= since]
        return _position(reader.name, f"{format_duration(reader.longest_lag)} back at most", commits, unread)
    try:
        at = _kept_in(reader, storage)
    except (LakewardenError, FileNotFoundError, DamagedError, ValueError) as error:
        return ReaderPosition(name=reader.name, unreadable=str(error) or type(error).__name__)
    unread = [one for one in commits if (one.completed_time or one.time) > at]
    return _position(reader.name, "the beginning" if at == _BEGINNING else at, commits, unread)


def _position(name: str, at: str, commits: Sequence[Instant], unread: Sequence[Instant]) -> ReaderPosition:
    """Return a position. A reader that has read everything needs the newest commit, which shows that."""
    needed = min((*unread, *commits[-1:]), key=lambda one: one.time, default=None)
    return ReaderPosition(
        name=name,
        at=at,
        behind=len(unread),
        unread_since=min((one.completed_at or one.requested_at for one in unread), default=None),
        needs=None if needed is None else needed.time,
    )


def _kept_in(reader: IncrementalReader, storage: Storage) -> str:
    """Return the position that is kept in a checkpoint or a file. Raises what the storage raises, and ValueError."""
    match reader:
        case IncrementalReader(checkpoint=str(folder)):
            return _of_checkpoint(canonical_location(folder), storage)
        case IncrementalReader(position=str(file)):
            said = storage.read(canonical_location(file), limit=_LARGEST).decode(errors="replace").strip()
            if _POSITION.fullmatch(said) is None:
                raise ValueError(f"{file} holds no instant")
            return said
        case IncrementalReader():
            raise ValueError("it keeps its position nowhere")
        case _:
            assert_never(reader)


def _of_checkpoint(folder: str, storage: Storage) -> str:
    """Return the end of the last completed batch of a Structured Streaming query. `commits` names the batch, and
    `offsets` has its end. If a query has several sources, its slowest Hudi source counts.
    """
    batches = [one.name for one in storage.listing(f"{folder}/offsets") if _BATCH.fullmatch(one.name)]
    if not batches:
        raise ValueError(f"{folder}/offsets holds no batch")
    try:
        done = [int(one.name) for one in storage.listing(f"{folder}/commits") if _BATCH.fullmatch(one.name)]
    except FileNotFoundError:
        done = []
    if not done:
        return _BEGINNING
    name = f"{folder}/offsets/{max(done)}"
    lines = storage.read(name, limit=_LARGEST).splitlines()
    found = [
        at for at in map(_of_source, lines[2:]) if at is not None
    ]  # the version and the query's own settings come first
    if not found:
        raise ValueError(f"{name} names no instant of a Hudi table")
    return min(found)


def _of_source(line: bytes) -> str | None:
    if not line.startswith(b"{"):
        return None
    said: Any = from_json(line)
    at = next((str(said[key]) for key in _OFFSET if key in said), None) if isinstance(said, Mapping) else None
    return at if at is not None and _POSITION.fullmatch(at) else None


def needed_by(positions: Sequence[ReaderPosition]) -> ReaderPosition | None:
    """Return the reader that is furthest behind; None without any. Raises TemporaryError if one of them cannot be
    read: then its needs are not known.
    """
    for one in positions:
        if one.unreadable is not None:
            raise TemporaryError(f"the position of reader {one.name} cannot be read: {one.unreadable}")
    return min((one for one in positions if one.needs is not None), key=lambda one: one.needs or "", default=None)


def blockers(positions: Iterable[ReaderPosition]) -> Iterable[Blocker]:
    """Yield a blocker for each reader with a position that cannot be read."""
    for one in positions:
        if one.unreadable is not None:
            yield Blocker(
                services=frozenset({Service.CLEAN, Service.ARCHIVE}),
                code="reader_not_readable",
                reason=f"the position of reader {one.name} cannot be read: {one.unreadable}",
                remedy="correct the place of its position, or remove the reader from options.readers if it is gone",
            )


def notes(positions: Iterable[ReaderPosition]) -> Mapping[Service, tuple[str, ...]]:
    """Return the positions of the readers, which explain why so much stays."""
    said = tuple(
        f"reader {one.name} is at {one.at}: {_unread(one.behind)} unread, and everything since {one.needs} stays"
        for one in positions
        if one.needs is not None
    )
    return {Service.CLEAN: said, Service.ARCHIVE: said} if said else {}


def _unread(commits: int) -> str:
    return "1 commit is" if commits == 1 else f"{commits} commits are"
