"""Histories of an Iceberg table, and Iceberg's own words about them, told a second time without our code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.metadata.metadata import MAIN, Ref, Snapshot, TableMetadata
from tests.support.iceberg.iceberg_values import a_metadata
from tests.support.values import NOW

DAY = timedelta(days=1)


@dataclass
class History:
    """A table's snapshots, branches and tags as they come about; `at` is the time of what is next done to it."""

    at: datetime = NOW - 40 * DAY
    snapshots: list[Snapshot] = field(default_factory=list)
    refs: dict[str, Ref] = field(default_factory=dict)

    def commit(
        self,
        branch: str | None = MAIN,
        *,
        checkpoint: tuple[str, str | None, int] | None = None,
        operation: str = "append",
        marks: Mapping[str, str] | None = None,
    ) -> int:
        """Commit to a branch; None stages it for none. `checkpoint` is Flink's: its job, operator and number. `marks`
        are other keys of the summary.
        """
        head = self.refs.get(branch or MAIN) or self.refs.get(MAIN)
        summary = dict(marks or {})
        if checkpoint is not None:
            job, operator, number = checkpoint
            summary |= {"flink.job-id": job, "flink.max-committed-checkpoint-id": str(number)}
            summary |= {} if operator is None else {"flink.operator-id": operator}
        made = Snapshot(
            id=len(self.snapshots) + 1,
            parent=None if head is None else head.snapshot,
            sequence=len(self.snapshots) + 1,
            at=self.at,
            operation=operation,
            summary=summary,
            manifest_list=f"/lake/trips/metadata/snap-{len(self.snapshots) + 1}.avro",
        )
        self.snapshots.append(made)
        if branch is not None:
            self.point(branch, made.id)
        return made.id

    def point(self, name: str, snapshot: int, *, is_branch: bool = True) -> None:
        """Let a name stand for a snapshot: a new one, or one that moves."""
        was = self.refs.get(name) or Ref(name=name, is_branch=is_branch, snapshot=snapshot)
        self.refs[name] = replace(was, snapshot=snapshot)

    def metadata(
        self, properties: Mapping[str, str] | None = None, *, without: frozenset[int] = frozenset()
    ) -> TableMetadata:
        """Return the table as it is, or as it is `without` some of its snapshots."""
        left = [one for one in self.snapshots if one.id not in without]
        main = self.refs.get(MAIN)
        refs = tuple(ref for _, ref in sorted(self.refs.items()))
        return a_metadata(
            *left, refs=refs, current=None if main is None else main.snapshot, properties=properties or {}
        )


_JOBS = st.tuples(st.sampled_from(["job-a", "job-b"]), st.sampled_from(["op-1", "op-2", None]))
_NAMES = st.sampled_from([MAIN, MAIN, MAIN, "audit", "dev"])


@st.composite
def histories(draw: st.DrawFn, *, flink: bool = True) -> History:
    """Draw a history of appends, Flink's commits, staged commits, branches, tags, rollbacks and pauses."""
    history = History()
    for _ in range(draw(st.integers(0, 25))):
        pauses = [timedelta(minutes=1), timedelta(hours=5), DAY, 4 * DAY]
        history.at += draw(st.sampled_from([*pauses, -2 * DAY]))  # another writer's clock may be behind
        does = draw(st.sampled_from(["append", "append", "flink", "flink", "stage", "branch", "tag", "roll back"]))
        known = [one.id for one in history.snapshots]
        if does == "append" or not known:
            history.commit(draw(_NAMES) if known else MAIN)
        elif does == "flink":
            mark = (*draw(_JOBS), len(known)) if flink else None
            history.commit(draw(_NAMES), checkpoint=mark)
        elif does == "stage":
            history.commit(None)
        elif does == "branch":
            history.point(draw(st.sampled_from(["audit", "dev"])), draw(st.sampled_from(known)))
            _retain(draw, history, draw(st.sampled_from(sorted(history.refs))))
        elif does == "tag":
            history.point(f"tag-{draw(st.integers(1, 2))}", draw(st.sampled_from(known)), is_branch=False)
        else:
            history.point(MAIN, draw(st.sampled_from(known)))
    return history


def _retain(draw: st.DrawFn, history: History, name: str) -> None:
    history.refs[name] = replace(
        history.refs[name],
        min_snapshots_to_keep=draw(st.sampled_from([None, 1, 3])),
        max_snapshot_age=draw(st.sampled_from([None, timedelta(0), 2 * DAY, 20 * DAY])),
        max_ref_age=draw(st.sampled_from([None, DAY])),
    )


def kept_by_iceberg(metadata: TableMetadata, now: datetime, *, age: timedelta, count: int) -> set[int]:
    """Return what `RemoveSnapshots` keeps with no ids given, by its own four steps: `computeRetainedRefs`,
    `computeAllBranchSnapshotsToRetain`, the heads of all names, `unreferencedSnapshotsToRetain`.
    """
    refs = names_kept_by_iceberg(metadata, now)
    kept = {ref.snapshot for ref in refs}
    named = set(kept)
    for ref in refs:
        if not ref.is_branch:
            continue
        older_than = now - (age if ref.max_snapshot_age is None else ref.max_snapshot_age)
        of_branch: set[int] = set()
        going_on = True
        for one in parents(metadata, ref.snapshot):
            named.add(one.id)
            going_on = going_on and (len(of_branch) < (ref.min_snapshots_to_keep or count) or one.at >= older_than)
            if going_on:
                of_branch.add(one.id)
        kept |= of_branch
    return kept | {one.id for one in metadata.snapshots if one.id not in named and one.at >= now - age}


def names_kept_by_iceberg(metadata: TableMetadata, now: datetime) -> list[Ref]:
    """Return the branches and tags that `computeRetainedRefs` keeps, where the table has no age for all of them."""
    ages = {one.id: now - one.at for one in metadata.snapshots}
    return [
        ref
        for ref in metadata.refs
        if ref.name == MAIN or ref.max_ref_age is None or ages[ref.snapshot] <= ref.max_ref_age
    ]


def committed_checkpoint(metadata: TableMetadata, branch: str, job: str, operator: str) -> int:
    """Return what `SinkUtil.getMaxCommittedCheckpointId` tells a job that is restored: -1 makes it commit again."""
    [head] = [ref.snapshot for ref in metadata.refs if ref.name == branch]
    for one in parents(metadata, head):
        of_operator = one.summary.get("flink.operator-id")
        if one.summary.get("flink.job-id") == job and of_operator in (None, operator):
            return int(one.summary["flink.max-committed-checkpoint-id"])
    return -1


def parents(metadata: TableMetadata, snapshot: int | None) -> list[Snapshot]:
    """Return a snapshot and those it was made from, as far as the table has them."""
    by_id = {one.id: one for one in metadata.snapshots}
    found = []
    while snapshot in by_id:
        found.append(by_id[snapshot])
        snapshot = by_id[snapshot].parent
    return found
