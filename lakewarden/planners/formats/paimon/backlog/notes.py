"""What a person should know of a Paimon table, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakewarden.planners.formats.paimon.backlog.blockers import first_hidden
from lakewarden.planners.formats.paimon.backlog.compactions import Bucket
from lakewarden.planners.formats.paimon.backlog.needs import NeedFacts
from lakewarden.planners.formats.paimon.deletion.orphans_beside import LastRun
from lakewarden.planners.formats.paimon.deletion.retention import Rule
from lakewarden.planners.formats.paimon.metadata.files import partition_path
from lakewarden.planners.formats.paimon.metadata.heads import run_of
from lakewarden.planners.formats.paimon.metadata.snapshots import time_of
from lakewarden.planners.formats.paimon.options.service_options import OrphansOptions, age_of_orphans, unknown_for
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.model.printable import counted
from lakewarden.planners.model.view import ReaderPosition
from lakewarden.planners.settings import format_duration, format_size

_MOST = 10
"""So many names are told of one kind."""


def of_compaction(facts: NeedFacts) -> Iterator[str]:
    """Yield the layout of the table, what waits to be merged, and who merges it."""
    schema, held = facts.schema, facts.holdings
    options = schema.options
    keyed = "a primary-key table" if schema.has_key else "an append table"
    yield f"{keyed} with {options.bucket_mode}{f' ({options.bucket})' if options.bucket > 0 else ''}"
    yield (
        f"{counted(held.files, 'file')}, {format_size(held.bytes)}, {counted(held.rows, 'row')}, in "
        f"{counted(held.partitions, 'partition')} and {counted(held.buckets, 'bucket')}; {held.small} smaller than "
        f"{format_size(options.small)}"
    )
    yield from _to_merge(facts)
    if facts.index.vectors or facts.index.vector_files:
        rows = "" if facts.index.deleted_rows is None else f", with {counted(facts.index.deleted_rows, 'deleted row')}"
        vectors = counted(facts.index.vectors, "deletion vector")
        yield f"{vectors} in {counted(facts.index.vector_files, 'index file')}{rows}"
    if options.changelog_producer != "none":
        made = sum(snapshot.changelog is not None for snapshot in facts.history.snapshots)
        yield f"changelog-producer is {options.changelog_producer}: {counted(made, 'changelog')} of snapshots"
    yield _who_compacts(facts)
    yield from _without_order(facts)


def _to_merge(facts: NeedFacts) -> Iterator[str]:
    held, since = facts.holdings, facts.since
    if facts.schema.has_key:
        yield (
            f"{counted(held.level_0, 'file')} of level 0; at most {counted(held.most_runs, 'sorted run')} in a bucket; "
            f"{counted(held.at_trigger, 'bucket')} with {facts.schema.options.trigger} or more "
            "(num-sorted-run.compaction-trigger)"
        )
    if held.fullest is not None:
        yield (
            f"a full compaction would rewrite {counted(held.pending_files, 'file')} of "
            f"{counted(held.pending, 'bucket')}, most of all in {_named(held.fullest, facts)}"
        )
    if facts.schema.options.hides_level_0 and held.level_0:
        yield f"readers do not see {counted(held.level_0, 'file')} of level 0 before a compaction{_hidden_since(facts)}"
    at_least = "" if facts.history.is_whole or since.last is not None else "at least "
    last = "there was none yet" if since.last is None else f"it was snapshot {since.last.id}"
    yield f"{at_least}{counted(since.commits, 'write commit')} since the last full compaction: {last}"


def _hidden_since(facts: NeedFacts) -> str:
    first = first_hidden(facts)
    if first is None:
        return ""
    return f": at least those of snapshot {first.id}, since {first.at:%Y-%m-%d %H:%M:%S} UTC"


def _named(bucket: Bucket, facts: NeedFacts) -> str:
    schema = facts.schema
    partition = partition_path(bucket.partition, schema.partition_keys, schema.partition_types)
    place = f"{partition}/bucket-{bucket.number}" if partition else f"bucket-{bucket.number}"
    if schema.has_key:
        return f"{place}: {counted(bucket.runs, 'sorted run')}, {counted(bucket.level_0, 'file')} of level 0"
    return f"{place}: {counted(bucket.small, 'small file')} of {bucket.files}"


def _who_compacts(facts: NeedFacts) -> str:
    itself = [user.name for user in facts.users if user.compacts]
    if itself:
        return f"write-only is {_switch(facts)}, and writers compact by themselves: {_some(itself)}"
    if facts.schema.options.write_only:
        return "write-only is true: writers compact nothing and expire no snapshots"
    return "write-only is false: writers may compact by themselves"


def _without_order(facts: NeedFacts) -> Iterator[str]:
    """Yield the hazard of two jobs that write the same keys at once: both count on from the same sequence number."""
    jobs = sum(user.writes and run_of(user.name) is None for user in facts.users)
    if facts.schema.has_key and not facts.schema.options.has_sequence_field and jobs > 1:
        yield (
            f"{jobs} commit users write it, and it has no sequence.field. If two jobs write a key at the same time, "
            "Paimon does not define which of the two rows readers see, and any compaction may show the other one. Set "
            "sequence.field, or let one job write at a time"
        )


def _switch(facts: NeedFacts) -> str:
    return "true" if facts.schema.options.write_only else "false"


def of_orphans(options: OrphansOptions, table: PaimonTableOptions, last: LastRun | None) -> Iterator[str]:
    """Yield what an orphan is, and which unknown files wait."""
    yield (
        f"a file is an orphan that is older than {age_of_orphans(options, table)} and that no snapshot, tag, branch or "
        f"changelog names, in two runs at least {format_duration(unknown_for(options, table))} apart"
    )
    if last is not None and last.waits_until is not None:
        yield (
            f"{counted(last.waiting, 'file')} that the last run has seen may go from "
            f"{last.waits_until:%Y-%m-%d %H:%M:%S} UTC on"
        )


def of_clean(facts: NeedFacts, rule: Rule) -> Iterator[str]:
    """Yield the snapshots, which of them may expire, and what holds the others."""
    history, references = facts.history, facts.references
    newest = history.newest
    if newest is None:
        return
    retention = facts.retention(rule)
    yield f"{counted(history.count, 'snapshot')}, {history.oldest} to {newest.id}"
    yield (
        f"{retention.beyond} of them may expire: the newest {rule.least} stay, and all that were superseded less than "
        f"{format_duration(rule.age)} ago"
    )
    if retention.held_by is not None:
        yield f"{retention.held_by} holds snapshots that else could expire"
    if references.tags:
        tags = [f"{tag.name} ({tag.snapshot})" for tag in references.tags]
        yield f"{counted(len(tags), 'tag')}: {_some(tags)}"
    if references.branches:
        branches = [f"{branch.name} ({branch.snapshot or 'no snapshot'})" for branch in references.branches]
        yield f"{counted(len(branches), 'branch')}: {_some(branches)}"
    if references.changelogs:
        yield (
            f"{counted(len(references.changelogs), 'changelog')} without a snapshot, {references.changelogs[0]} to "
            f"{references.changelogs[-1]}"
        )
    if references.left:
        yield f"{references.left} more tags, branches or consumers were not read"
    yield from _of_users(facts)


def _of_users(facts: NeedFacts) -> Iterator[str]:
    streaming = [user for user in facts.users if user.is_streaming]
    for user in streaming[:_MOST]:
        yield (
            f"the streaming job with the commit user {user.name[:80]} committed {user.newest.identifier} last, in "
            f"snapshot {user.newest.id}"
        )
    if len(streaming) > _MOST:
        yield f"{len(streaming) - _MOST} more streaming jobs have committed"
    batch = sum(not user.is_streaming and run_of(user.name) is None for user in facts.users)
    if batch:
        yield counted(batch, "commit user of batch jobs", "commit users of batch jobs")


def _some(names: Sequence[str]) -> str:
    first_names = ", ".join(name[:80] for name in names[:_MOST])
    return f"{first_names} and {len(names) - _MOST} more" if len(names) > _MOST else first_names


def readers_of(facts: NeedFacts) -> tuple[ReaderPosition, ...]:
    """Return the consumers as readers. If the next snapshot is gone, the reader begins at the oldest, or fails."""
    newest = facts.history.newest
    if newest is None:
        return ()
    at = {snapshot.id: snapshot.at for snapshot in facts.history.snapshots}
    return tuple(
        ReaderPosition(
            name=consumer.name,
            at=f"snapshot {consumer.next}",
            behind=max(0, newest.id - max(consumer.next, facts.history.oldest) + 1),
            unread_since=at.get(consumer.next),
            needs=time_of(consumer.next) if facts.history.oldest <= consumer.next <= newest.id else None,
        )
        for consumer in facts.references.consumers
    )
