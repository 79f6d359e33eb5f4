"""The survey of a Hudi table: its file slices by the names of its files, which a listing shows.

Sources (docs/hudi.md): a base file is `<file id>_<token>_<instant>.<format>`, a log file is
`.<file id>_<instant>.log.<version>_<token>`. The instant of a log file is the base instant of its slice (layout 1), or
its own (layout 2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from lakewarden.planners.formats.hudi.backlog.neglected import RETAINED_BY_HUDI
from lakewarden.planners.formats.hudi.format import HUDI, THOROUGH
from lakewarden.planners.formats.hudi.metadata.memo import Memo, Reading
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, Layout, collapse
from lakewarden.planners.formats.hudi.metadata.properties import parse_properties
from lakewarden.planners.formats.hudi.metadata.table_properties import HOME, TableProperties, read_table_properties
from lakewarden.planners.formats.hudi.metadata.timeline import know
from lakewarden.planners.formats.hudi.options.named_locks import lock_named_by
from lakewarden.planners.formats.hudi.options.service_options import (
    ArchiveOptions,
    CleanOptions,
    ClusteringOptions,
    CompactionOptions,
    RollbackOptions,
)
from lakewarden.planners.model.instant import Instant, InstantKind, Service, State
from lakewarden.planners.model.table import Policy, Table
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.surveying.contents import YOUNG, Amount, Contents, Rewrite, Sign, Survey, WriterDefaults
from lakewarden.planners.surveying.files import Joining, each_file
from lakewarden.planners.triggers import AnyOf, LogFiles, NumCommits, SmallFiles

SMALL_FILE = 100 * 2**20
"""`hoodie.parquet.small.file.limit` as Hudi sets it. Hudi's own target for base files is 120 MB, so the limit of
clustering (300 MiB by default) would call every file of a well-kept table small."""

_JOINED = ClusteringOptions().target_file_max_bytes

_BASE = re.compile(r"(?P<group>[^/]+?)_[^_/]+_(?P<at>\d{3,23})\.(?:parquet|orc|hfile|lance)")
_LOG = re.compile(r"\.(?P<group>[^/]+)_(?P<at>\d{3,23})\.log\.\d+(?:_[^/]*)?")


@dataclass(slots=True)
class _Group:
    """The files of a file group: base files as (instant, size, whether it may be young), log files the same."""

    bases: list[tuple[str, int, bool]] = field(default_factory=list)
    logs: list[tuple[str, int, bool]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Instants:
    """Which instants count: `done` has the completion times of completed commits. Instants before `first` were
    archived, and had completed. `replaced` are the file groups that a commit took out of the table, with the time.
    """

    done: Mapping[str, str]
    pending: frozenset[str]
    first: str
    replaced: Mapping[int, str]
    retained_from: str

    def is_done(self, at: str) -> bool:
        return at in self.done or at < self.first

    def is_failed(self, at: str) -> bool:
        return not self.is_done(at) and at not in self.pending


class HudiSurveyor:
    """Surveys Hudi tables."""

    @property
    def sign(self) -> Sign:
        """Return the folder `.hoodie`."""
        return Sign(folder=HOME)

    @property
    def policies(self) -> Mapping[Service, Policy]:
        """Return the triggers of the example configuration."""
        return {
            Service.COMPACTION: Policy(
                trigger=AnyOf(triggers=(NumCommits(at_least=10), LogFiles(at_least=10))), options=CompactionOptions()
            ),
            Service.CLUSTERING: Policy(
                trigger=SmallFiles(at_least=20), options=ClusteringOptions(small_file_limit=SMALL_FILE)
            ),
            Service.CLEAN: Policy(trigger=NumCommits(at_least=10), options=CleanOptions()),
            Service.ARCHIVE: Policy(
                trigger=NumCommits(at_least=ArchiveOptions().keep_max_commits), options=ArchiveOptions()
            ),
            Service.ROLLBACK: Policy(trigger=NumCommits(at_least=1), options=RollbackOptions()),
        }

    def defaults_file(self, environment: Mapping[str, str]) -> Path:
        """Return where Hudi's writers look for `hudi-defaults.conf`."""
        return Path(environment.get("HUDI_CONF_DIR", "/etc/hudi/conf")) / "hudi-defaults.conf"

    def options_from(self, defaults: bytes) -> WriterDefaults:
        """Return the lock that `hudi-defaults.conf` names, if it names one."""
        return self.options_of(parse_properties(defaults))

    def options_of(self, properties: Mapping[str, str]) -> WriterDefaults:
        """Return the lock that the options of a writer name, if they name one."""
        lock, remarks = lock_named_by(properties)
        return WriterDefaults(options={} if lock is None else {"lock": lock}, remarks=remarks)

    def kept_by_newest_clean(self, table: Table, storage: Storage, *, now: datetime) -> int | None:
        """Return how many commits the newest clean kept, if those are more than Hudi's default."""
        judged = replace(table, policies={Service.CLEAN: self.policies[Service.CLEAN]})
        kept = HUDI.observe(judged, storage, None, now=now).view.kept_more.get(Service.CLEAN)
        return None if kept is None else kept.commits

    def keeping(self, commits: int) -> Mapping[Service, Mapping[str, Any]]:
        """Return the options that keep so many commits. Archive keeps more of them on the timeline, as by default."""
        by_default = ArchiveOptions()
        more = max(0, commits - RETAINED_BY_HUDI)
        return {
            Service.CLEAN: {"commits_retained": commits},
            Service.ARCHIVE: {
                "keep_min_commits": by_default.keep_min_commits + more,
                "keep_max_commits": by_default.keep_max_commits + more,
            },
        }

    def survey(self, table: Table, storage: Storage, *, now: datetime) -> Survey:
        """Return the survey. Raises what observing raises."""
        view = THOROUGH.observe(table, storage, None, now=now).view
        properties = read_table_properties(table.location, storage)
        groups: dict[tuple[str, str], _Group] = {}
        metadata = Amount()

        def take(path: str, entry: FileEntry) -> None:
            nonlocal metadata
            if path.startswith(f"{HOME}/"):
                metadata = metadata.plus(Amount(1, entry.size))
                return
            partition, _, name = path.rpartition("/")
            for pattern in (_BASE, _LOG):
                if (named := pattern.fullmatch(name)) is not None:
                    group = groups.setdefault((partition, named["group"]), _Group())
                    kept = group.bases if pattern is _BASE else group.logs
                    kept.append((named["at"], entry.size, now - entry.modified < YOUNG))
                    return

        left_out = each_file(table.location, storage, take)
        instants = _instants(view.timeline, _replaced(properties, storage), _retained(table))
        sums = _Sums(instants, properties, limit=_small_limit(table))
        for (partition, group), files in groups.items():
            sums.add(partition, group, files)
        contents = _contents(sums, properties, metadata=metadata, timeline=view.timeline, note=left_out)
        return Survey(view=view, contents=contents)


def _small_limit(table: Table) -> int:
    policy = table.policies.get(Service.CLUSTERING)
    options = None if policy is None else policy.options
    return options.small_file_limit if isinstance(options, ClusteringOptions) else SMALL_FILE


def _retained(table: Table) -> int:
    policy = table.policies.get(Service.CLEAN)
    options = None if policy is None else policy.options
    return (options.commits_retained if isinstance(options, CleanOptions) else None) or RETAINED_BY_HUDI


def _instants(timeline: Timeline, replaced: Mapping[int, str], retained: int) -> _Instants:
    commits = [one for one in timeline.instants if Action(one.action).completed_as in COMMITS]
    done = {one.time: one.completed_time or one.time for one in commits if not one.pending}
    newest = sorted(done)[-retained:]
    return _Instants(
        done=done,
        pending=frozenset(one.time for one in timeline.instants if one.pending),
        first=min((one.time for one in commits), default="9"),
        replaced=replaced,
        retained_from=newest[0] if len(newest) == retained else "",
    )


def _replaced(properties: TableProperties, storage: Storage) -> Mapping[int, str]:
    """Return the file groups that completed commits have taken out of the table, with the times of those commits."""
    reading = Reading(storage=storage, folder=properties.timeline_folder, remembered=Memo())
    try:
        instants = collapse(storage.listing(properties.timeline_folder), properties.layout)
    except FileNotFoundError:
        return {}
    found = {}
    for one in instants:
        if one.state is State.COMPLETED and one.action.completed_as is Action.REPLACECOMMIT:
            known = know(one, reading, layout=properties.layout, merge_on_read=properties.merge_on_read, commits=True)
            groups = () if known.written is None else known.written.replaced
            found.update(dict.fromkeys(groups, one.ended))
    return found


class _Sums:
    """The sums over the file groups of a table."""

    def __init__(self, instants: _Instants, properties: TableProperties, *, limit: int) -> None:
        self._instants, self._layout, self._limit = instants, properties.layout, limit
        self.live = self.deltas = self.old = self.unknown = self.expirable = Amount()
        self.merged = Rewrite()
        self.small = Joining(target=_JOINED)
        self.joining = Joining(target=_JOINED)

    def add(self, partition: str, group: str, files: _Group) -> None:
        """Add a file group."""
        for at, size, young in (*files.bases, *files.logs):
            if self._instants.is_failed(at) and not young:
                self.unknown = self.unknown.plus(Amount(1, size))
        gone_at = self._instants.replaced.get(hash((partition, group)))
        bases = sorted((at, size) for at, size, _ in files.bases if self._instants.is_done(at))
        superseded = [*(at for at, _ in bases[1:]), gone_at]
        for (_, size), by in zip(bases, superseded, strict=False):
            if by is not None:
                self._add_old(size, by)
        newest = bases[-1] if bases else ("", 0)
        logs = self._logs(files, newest[0], gone_at)
        if bases and gone_at is None:
            self._add_live(partition, newest[1], merges=bool(logs.files))
        self.deltas = self.deltas.plus(logs)
        if logs.files:
            base = Amount(len(bases[-1:]), newest[1])
            files_, size = logs.plus(base)
            self.merged = Rewrite(self.merged.files + files_, self.merged.bytes + size, self.merged.after + 1)

    def _logs(self, files: _Group, newest: str, gone_at: str | None) -> Amount:
        """Return the log files of the newest slice. Those of older slices are old."""
        found = Amount()
        for at, size, _ in files.logs:
            if self._instants.is_failed(at) or (self._layout is Layout.V2 and at in self._instants.pending):
                continue
            ended = self._instants.done.get(at, at) if self._layout is Layout.V2 else at
            if gone_at is None and ended >= newest:
                found = found.plus(Amount(1, size))
            else:
                self._add_old(size, gone_at or newest)
        return found

    def _add_old(self, size: int, superseded_at: str) -> None:
        self.old = self.old.plus(Amount(1, size))
        if superseded_at < self._instants.retained_from:
            self.expirable = self.expirable.plus(Amount(1, size))

    def _add_live(self, partition: str, size: int, *, merges: bool) -> None:
        self.live = self.live.plus(Amount(1, size))
        if size < self._limit:
            self.small.add(partition, size)
            if not merges:
                self.joining.add(partition, size)


def _contents(
    sums: _Sums, properties: TableProperties, *, metadata: Amount, timeline: Timeline, note: str | None
) -> Contents:
    rewrites = {Service.CLUSTERING: sums.joining.rewrite()}
    if properties.merge_on_read:
        rewrites[Service.COMPACTION] = sums.merged
    commits = [one for one in timeline.instants if not one.pending and Action(one.action).completed_as in COMMITS]
    return Contents(
        live=sums.live,
        small=sums.small.all,
        deltas=sums.deltas,
        old=sums.old,
        unknown=sums.unknown,
        metadata=metadata,
        versions=len(commits),
        rewrites=rewrites,
        deletes={Service.CLEAN: sums.expirable},
        notes=tuple(_notes(timeline, note, has_files=bool(sums.live.files or sums.deltas.files))),
    )


def _notes(timeline: Timeline, left_out: str | None, *, has_files: bool) -> Iterator[str]:
    if left_out is not None:
        yield left_out
    if not has_files and any(_is_write(one) for one in timeline.instants):
        yield "it has commits, and no data file is in its folder"
    if any(_is_savepoint(one) for one in timeline.instants):
        yield "it has savepoints: a clean keeps their files, so it deletes less than is said here"


def _is_savepoint(instant: Instant) -> bool:
    return instant.stands_for is InstantKind.SAVEPOINT and not instant.pending


def _is_write(instant: Instant) -> bool:
    return instant.stands_for is InstantKind.WRITE and not instant.pending


SURVEYOR = HudiSurveyor()
