"""The survey of a Paimon table: its files by the names that its snapshots, tags and branches give them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from math import ceil

from lakewarden.planners.formats.paimon.backlog.buckets import buckets_of
from lakewarden.planners.formats.paimon.backlog.memo import Memo
from lakewarden.planners.formats.paimon.deletion.known import KnownNames
from lakewarden.planners.formats.paimon.deletion.names import FileNames
from lakewarden.planners.formats.paimon.format import PAIMON
from lakewarden.planners.formats.paimon.metadata.heads import Heads, require_table
from lakewarden.planners.formats.paimon.observing import Look, look, rule_for, view_of
from lakewarden.planners.formats.paimon.options.service_options import CleanOptions, CompactionOptions, OrphansOptions
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.surveying.contents import YOUNG, Amount, Contents, Rewrite, Sign, Survey
from lakewarden.planners.surveying.files import each_file, not_there
from lakewarden.planners.triggers import NumCommits

_FOLDERS = ("schema", "snapshot", "manifest", "index", "statistics", "tag", "branch", "consumer", "changelog")
"""Folders with metadata, right below the table."""

_PLACES = frozenset(_FOLDERS)


class PaimonSurveyor:
    """Surveys Paimon tables."""

    @property
    def sign(self) -> Sign:
        """Return the folder of the schemas."""
        return Sign(folder="schema", file=re.compile(r"schema-\d{1,18}"))

    @property
    def policies(self) -> Mapping[Service, Policy]:
        """Return the triggers of the example configuration."""
        return {
            Service.COMPACTION: Policy(trigger=NumCommits(at_least=10), options=CompactionOptions()),
            Service.CLEAN: Policy(trigger=NumCommits(at_least=1), options=CleanOptions()),
            Service.ORPHANS: Policy(trigger=NumCommits(at_least=1), options=OrphansOptions()),
        }

    def survey(self, table: Table, storage: Storage, *, now: datetime) -> Survey:
        """Return the survey. Raises what observing raises."""
        table = PAIMON.located(table)
        require_table(table.location, storage)
        head = Heads().of(table.location, storage)
        found = look(table.location, storage, Memo(), head=None if head is None else head.id, now=now)
        listed = _Listed(now)
        notes = [each_file(table.location, storage, listed.take)]
        contents = _contents(table, found, listed, storage, notes)
        return Survey(view=view_of(table, found), contents=contents)


class _Listed:
    """The files of a table as a listing shows them: those with data by their names, and the sum of the others."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self.data: dict[str, tuple[int, bool]] = {}
        """By name: the size in bytes, and whether the file may belong to a write in flight."""
        self.metadata = Amount()

    def take(self, path: str, entry: FileEntry) -> None:
        """Take a file."""
        folder, _, rest = path.partition("/")
        if not rest or folder in _PLACES or folder.startswith("."):
            self.metadata = self.metadata.plus(Amount(1, entry.size))
        else:
            self.data[path.rpartition("/")[2]] = (entry.size, self._now - entry.modified < YOUNG)

    def sum(self, names: set[str]) -> Amount:
        """Return the files of these names that are there."""
        sizes = [self.data[name][0] for name in names if name in self.data]
        return Amount(len(sizes), sum(sizes))


def _contents(table: Table, found: Look, listed: _Listed, storage: Storage, notes: list[str | None]) -> Contents:
    facts, held = found.facts, found.facts.holdings
    newest = facts.history.newest
    names = FileNames(location=table.location, storage=storage)
    live: set[str] = set()
    old = unknown = None
    expirable = Amount()
    try:
        live = set() if newest is None else names.live(newest)
        notes.append(not_there(len(live), listed.sum(live).files))
        known = KnownNames(table.location, storage)
        known.look()
        old = listed.sum({name for name in listed.data if name not in live and name in known})
        unknown = listed.sum({name for name, (_, young) in listed.data.items() if name not in known and not young})
        expirable = listed.sum(_expiring(table, found, names) - live)
    except LakewardenError as unread:
        notes.append(f"the files of its older versions were not compared: {unread}")
    levels = [] if found.memo.totals is None else buckets_of(found.memo.totals)
    deltas = Amount(held.level_0, sum(one.level_0_bytes for one in levels) if facts.schema.has_key else 0)
    options = facts.schema.options
    small = [size for name, (size, _) in listed.data.items() if name in live and size < options.small]
    after = max(held.pending, ceil(held.pending_bytes / max(1, options.small)))
    return Contents(
        live=Amount(held.files - deltas.files, held.bytes - deltas.bytes),
        small=Amount(held.small, sum(small)),
        deltas=deltas,
        old=old,
        unknown=unknown,
        metadata=listed.metadata,
        versions=facts.history.count,
        rewrites={Service.COMPACTION: Rewrite(held.pending_files, held.pending_bytes, min(after, held.pending_files))},
        deletes={Service.CLEAN: expirable, **({} if unknown is None else {Service.ORPHANS: unknown})},
        notes=tuple(_notes(found, notes)),
    )


def _expiring(table: Table, found: Look, names: FileNames) -> set[str]:
    """Return the files that only the snapshots need that may expire now: those that the next snapshots have deleted."""
    facts = found.facts
    retention = facts.retention(rule_for(table, facts))
    if not retention.beyond:
        return set()
    later = (one for one in facts.history.snapshots if facts.history.oldest < one.id <= retention.first_kept)
    return {name for one in later for name in names.deleted(one)}


def _notes(found: Look, notes: list[str | None]) -> Iterator[str]:
    yield from (one for one in notes if one is not None)
    if found.facts.references.tags:
        yield "it has tags: a clean keeps their files, so it deletes less than is said here"


SURVEYOR = PaimonSurveyor()
