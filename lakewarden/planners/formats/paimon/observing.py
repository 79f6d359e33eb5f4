"""One look at a Paimon table: its schema, its snapshots, and the manifests that were not read before."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakewarden.planners.formats.paimon.backlog.blockers import blockers, unseen_since, warnings
from lakewarden.planners.formats.paimon.backlog.compactions import Compactions, Holdings, holdings_of, is_full
from lakewarden.planners.formats.paimon.backlog.manifests_read import Files, ManifestReading, Memo, Totals, changes_of
from lakewarden.planners.formats.paimon.backlog.needs import NeedFacts, Needs, needs_of
from lakewarden.planners.formats.paimon.backlog.notes import of_clean, of_compaction, of_orphans, readers_of
from lakewarden.planners.formats.paimon.deletion.orphans_beside import LastRun, last_run
from lakewarden.planners.formats.paimon.deletion.retention import Rule, rule_of
from lakewarden.planners.formats.paimon.metadata.files import REMEDY, CorruptMetadataError
from lakewarden.planners.formats.paimon.metadata.heads import SCHEMA, table_identity
from lakewarden.planners.formats.paimon.metadata.history import Holding, Kept, misleading_hint, read_history
from lakewarden.planners.formats.paimon.metadata.schemas import Schema, parse_schema
from lakewarden.planners.formats.paimon.metadata.snapshots import timeline_of
from lakewarden.planners.formats.paimon.options.service_options import (
    CleanOptions,
    CompactionOptions,
    OrphansOptions,
)
from lakewarden.planners.formats.paimon.options.table_options import own_options
from lakewarden.planners.formats.paimon.partitions.serving import Served, is_served, served
from lakewarden.planners.formats.paimon.writers import commit_users, writer_activity
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation, Storage
from lakewarden.planners.storage.content import listed

KNOWN_FOR = timedelta(minutes=5)
"""So long an equal token vouches for a view. It shows no change of a schema, a tag, a branch or a consumer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What one look has found, and what the next one may remember."""

    first: Schema
    facts: NeedFacts
    faults: tuple[str, ...]
    memo: Memo

    @property
    def totals(self) -> Totals:
        """Return the sums of the files. Raises TemporaryError while manifests are left to be read."""
        if self.memo.totals is None:
            raise TemporaryError("the manifests of the table are not read whole yet")
        return self.memo.totals


def observed(
    table: Table,
    storage: Storage,
    previous: Observation | None,
    *,
    head: int | None,
    token: str,
    now: datetime,
    timeout: timedelta,
) -> Observation:
    """Return the table under the token that was read before. `head` is the snapshot that was the newest then.

    After `timeout` no more manifests are read; which is a fault of the view, and the next look goes on.
    Raises PermanentError and TemporaryError, VanishedError among them.
    """
    remembered = Memo() if previous is None or previous.memo is None else previous.memo
    partitions = is_served(table)
    new_look = look(table.location, storage, remembered, head=head, now=now, timeout=timeout, partitions=partitions)
    service = served(table, new_look.facts, new_look.memo, storage) if partitions else Served()
    last = last_orphans(table, storage, new_look)
    rule = rule_of(new_look.facts.schema.options, table.options_of(Service.CLEAN, CleanOptions), own_options(table))
    minor = not is_full(new_look.facts.schema, table.options_of(Service.COMPACTION, CompactionOptions))
    needs = needs_of(new_look.facts, rule, minor=minor, last_orphans=last)
    view = view_of(table, new_look, needs=needs, rule=rule, last=last, of_partitions=service)
    ends = (needs.changes_at, service.changes_at, now + KNOWN_FOR)
    keep_until = now if view.faults else min(end for end in ends if end is not None)
    memo = replace(new_look.memo, marked=service.marked, watched=service.watched)
    return Observation(token=token, view=view, memo=memo, lasting=True, keep_until=keep_until)


def look(
    location: str,
    storage: Storage,
    remembered: Memo,
    *,
    head: int | None,
    now: datetime,
    timeout: timedelta | None = None,
    most: int | None = None,
    partitions: bool = False,
) -> Look:
    """Return what there is to be seen of a table, with so many snapshots at `most`. With `partitions` also when rows
    came into them. Raises as `observed` does.
    """
    kept = Kept(storage, remembered.kept)
    schemas = _schemas(location, storage, kept)
    schema = schemas[max(schemas)]
    history = read_history(location, storage, kept, head=head, most=most)
    reading = ManifestReading(
        location=location,
        storage=storage,
        remembered=remembered,
        small=schema.options.small,
        small_manifest=schema.options.small_manifest,
        ends_at=None if timeout is None else time.monotonic() + timeout.total_seconds(),
    )
    files = reading.files(history.newest)
    faults = [*history.faults, *_unread(files)]
    full = dict(remembered.full) if remembered.levels == schema.options.levels else {}
    since = Compactions(reading=reading, schema=schema, known=full, faults=faults).since(history)
    came = dict(remembered.came)
    changes = changes_of(reading, history, came) if partitions else None
    holding = Holding(location, storage, kept)
    facts = NeedFacts(
        schema=schema,
        history=history,
        holdings=Holdings() if files.totals is None else holdings_of(files.totals, schema),
        index=files.index,
        since=since,
        references=holding.references(),
        users=commit_users(history.snapshots),
        now=now,
        manifests=files.manifests,
        mergeable=files.mergeable,
        external=files.external,
        has_row_ids=files.has_row_ids,
        unknown_fields=files.unknown,
        changes=changes,
        misleading_hint=misleading_hint(location, storage, history),
    )
    memo = Memo(
        kept=kept.now,
        small=schema.options.small,
        digests=reading.digests,
        totals=files.totals,
        index=(None if history.newest is None else history.newest.index, files.index),
        levels=schema.options.levels,
        full=full,
        came=came if partitions else {},
        marked=remembered.marked,
    )
    return Look(first=schemas[min(schemas)], facts=facts, faults=(*faults, *holding.faults), memo=memo)


def _unread(files: Files) -> list[str]:
    if not files.left:
        return []
    read = files.manifests - files.left
    return [
        f"{read} of its {files.manifests} manifests have been read so far, and each look goes on from there: a table "
        "of this size takes several"
    ]


def _schemas(location: str, storage: Storage, kept: Kept) -> Mapping[int, Schema]:
    """Return the first and the newest schema: the options of a table are those of its newest one."""
    folder = f"{location}/schema"
    named = ((SCHEMA.fullmatch(entry.name), entry) for entry in listed(folder, storage))
    entries = {int(name[1]): entry for name, entry in named if name}
    if not entries:
        raise CorruptMetadataError(f"{folder} holds no schema, and the table has snapshots: {REMEDY}")
    wanted = {entries[number].name: number for number in (min(entries), max(entries))}

    def parsed(content: bytes, file: str) -> Schema:
        return parse_schema(content, file=file, named=wanted[file.rpartition("/")[2]])

    schemas = {}
    for entry, schema_or_error in kept.parsed(folder, [entries[number] for number in set(wanted.values())], parsed):
        if isinstance(schema_or_error, LakewardenError):
            raise schema_or_error
        schemas[wanted[entry.name]] = schema_or_error
    return schemas


def last_orphans(table: Table, storage: Storage, look: Look) -> LastRun | None:
    """Return the last run of orphans on a table, if the table has the service."""
    if Service.ORPHANS not in table.policies:
        return None
    return last_run(table.location, storage, created=table_identity(table.location, look.first).created)


def view_of(
    table: Table, look: Look, *, needs: Needs, rule: Rule, last: LastRun | None, of_partitions: Served
) -> TableView:
    """Return a look as deciding knows it, with the rule of clean, the last run of orphans, and what the services on
    partitions have to do. Pure.
    """
    facts, orphans = look.facts, table.options_of(Service.ORPHANS, OrphansOptions)
    return TableView(
        identity=table_identity(table.location, look.first),
        name=posixpath.basename(table.location),
        kind=f"{'primary key' if facts.schema.has_key else 'append'}, {facts.schema.options.bucket_mode}",
        version=str((facts.history.newest or facts.schema).version),
        observed_at=facts.now,
        timeline=timeline_of(facts.history.snapshots),
        writers=writer_activity(facts.history.snapshots),
        backlogs={**needs.backlogs, **{key: need.backlog for key, need in of_partitions.needs.items() if need.backlog}},
        blockers=() if look.memo.totals is None else (*blockers(table, facts), *of_partitions.blockers),
        faults=tuple(dict.fromkeys(look.faults)),
        warnings=() if look.memo.totals is None else tuple(warnings(facts)),
        at_rest={**needs.at_rest, **{key: need.rest for key, need in of_partitions.needs.items() if need.rest}},
        notes={
            Service.COMPACTION: tuple(of_compaction(facts)),
            Service.CLEAN: tuple(of_clean(facts, rule)),
            Service.ORPHANS: tuple(of_orphans(orphans, own_options(table), last)),
            **{key: need.notes for key, need in of_partitions.needs.items()},
        },
        readers=readers_of(facts),
        unseen_since=unseen_since(facts),
    )
