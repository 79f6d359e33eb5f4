"""What compaction has to do on a directory. Pure."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from lakewarden.planners.formats.directory.listing.folders import DROP, LOG_OF_A_SINK, OURS, Folder
from lakewarden.planners.formats.directory.options import CompactionOptions, DirectoryTableOptions, Publication
from lakewarden.planners.formats.directory.partitions import (
    MOST_SHOWN,
    PartitionJudgement,
    above_in,
    backlog_of,
    shown_path,
)
from lakewarden.planners.formats.directory.writers import active, moment
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.view import Blocker, ServiceNeeds
from lakewarden.planners.ports import MOST_FILES, Storage
from lakewarden.planners.settings import format_duration, format_size
from lakewarden.planners.storage.content import listed
from lakewarden.planners.storage.local import LocalStorage
from lakewarden.planners.storage.objects import ObjectStorage

# Whether a partition is compacted: it has many small files, is inactive, and is older than any job that is restored.
# Pure.


class CompactionState(Enum):
    """How far a partition is."""

    COMPACT = "compact"
    UNFIT = "unfit"
    ACTIVE = "active"
    WAITING = "waiting"
    DUE = "due"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionRules:
    """What all partitions of a directory are judged by: its options, the horizon of a restored job, and the usual
    interval between two changes of one partition in seconds.
    """

    table: DirectoryTableOptions
    compaction: CompactionOptions
    horizon: timedelta
    usual: float | None = None


def compaction_rules(
    table: DirectoryTableOptions, options: CompactionOptions, *, usual: float | None
) -> CompactionRules | None:
    """Return the rules; None if the owner names no horizon."""
    if table.restore_horizon is None:
        return None
    return CompactionRules(table=table, compaction=options, horizon=table.restore_horizon, usual=usual)


def judge(
    path: str, folder: Folder, above: Iterable[Folder], rules: CompactionRules, now: datetime
) -> PartitionJudgement[CompactionState]:
    """Return how far the partition at a path below the table is. `above` are the folders above it."""
    least = rules.compaction.min_input_files
    if folder.small < least:
        return PartitionJudgement(state=CompactionState.COMPACT, reason=f"it has fewer than {least} small files")
    over = list(above)
    why_unfit = next(_unfit(path, folder, over), None)
    if why_unfit is not None:
        return PartitionJudgement(state=CompactionState.UNFIT, reason=why_unfit)
    at_work = active(folder, over, rules.usual, rules.table, now)
    if at_work is not None:
        return PartitionJudgement(state=CompactionState.ACTIVE, reason=at_work.reason, until=at_work.until)
    if folder.staged:
        reason = "it holds a part in progress that no job has finished"
        return PartitionJudgement(state=CompactionState.UNFIT, reason=reason)
    old_at = moment(folder.changed_at) + rules.horizon
    if now <= old_at:
        horizon = format_duration(rules.horizon)
        reason = f"it changed within restore_horizon, {horizon}"
        return PartitionJudgement(state=CompactionState.WAITING, reason=reason, until=old_at)
    return PartitionJudgement(state=CompactionState.DUE, reason=f"it has {folder.small} small files")


def _unfit(path: str, folder: Folder, over: Iterable[Folder]) -> Iterator[str]:
    if not path:
        yield "files that lie in the folder of the directory itself cannot be exchanged in one act"
    if folder.has_folders:
        yield "there are folders in it"
    if folder.has_log or any(folder_above.has_log for folder_above in over):
        yield f"the {LOG_OF_A_SINK} in it, or above it, lists its files by name for Spark"
    if folder.returned:
        yield (
            f"{printable(folder.returned)} is older than the file of a compaction beside it, so it came after that "
            "one. If a job that copies files has brought back what was compacted, its rows are there twice: remove "
            "the copies, and do not compact the target of such a job. If its rows are new, touch the file"
        )


def due(folders: Mapping[str, Folder], rules: CompactionRules, now: datetime) -> list[str]:
    """Return the partitions that are to be compacted, those with the most small files first."""
    sized_paths = (
        (folder.small, path)
        for path, folder in folders.items()
        if judge(path, folder, above_in(path, folders), rules, now).state is CompactionState.DUE
    )
    return [path for _, path in sorted(sized_paths, reverse=True)]


def compaction_needs(
    folders: Mapping[str, Folder], rules: CompactionRules, now: datetime, *, unfinished: str | None = None
) -> ServiceNeeds:
    """Judge every partition, and add up. `unfinished` is what a killed run has left."""
    counts, until, waits, to_compact = Counter[CompactionState](), list[datetime](), list[str](), list[Folder]()
    for path, folder in folders.items():
        verdict = judge(path, folder, above_in(path, folders), rules, now)
        if folder.files:
            counts[verdict.state] += 1
        if verdict.until is not None:
            until.append(verdict.until)
        if verdict.state is CompactionState.DUE:
            to_compact.append(folder)
        elif verdict.state is not CompactionState.COMPACT and len(waits) < MOST_SHOWN:
            waits.append(f"{shown_path(path)} is not compacted: {verdict.reason}")
    size = sum(folder.small_bytes for folder in to_compact)
    files = sum(folder.small for folder in to_compact)
    summary = f"{len(to_compact)} partitions are to be compacted, with {files} small files, {format_size(size)}"
    changes_at = min(until, default=None)
    if not to_compact and unfinished is None:
        reason = f"no partition is to be compacted: {waits[0]}" if waits else "no partition has many small files"
        return ServiceNeeds(rest=NotDue(reason=reason, again_at=changes_at), notes=tuple(waits), changes_at=changes_at)
    since = moment(min((folder.changed_at for folder in to_compact), default=now.timestamp()))
    backlog = backlog_of(len(to_compact), since, files=files, size=size, small_files=files, unfinished=unfinished)
    return ServiceNeeds(backlog=backlog, notes=(summary, *waits), changes_at=changes_at)


# How far a replacement of files is in a directory of an object store, as its state there says.

_ENDED = b"deleted "
"""So begins the content of an object that stands for none (`ObjectConditions`)."""

_LARGEST = 64 * 1024

ACT = r"^[0-9a-f]{16}$"
"""The name of an act. It is also the name of its folder, which is deleted in the end: no other path can be given."""


class ActProgress(StrEnum):
    """How far an act is. Up to `staged` it is taken back after a kill. From then on it goes forward."""

    STAGED = "staged"
    """The new files are complete, in a folder that readers overlook."""
    POINTING = "pointing"
    """The metastore is being told to lead readers to that folder."""
    POINTED = "pointed"
    """The metastore leads all readers there. Those that were led to the partition before may still read."""
    REPLACING = "replacing"
    """In the folder of the partition the new files appear, and the old ones go."""
    RETURNED = "returned"
    """The metastore leads to the partition again. Readers may still read in the other folder."""
    CLEARING = "clearing"
    """Nothing needs the other folder any more."""


class ActState(BaseModel):
    """The state of the one act of a directory: its name, how far it is since when, and how long readers are waited for.
    `mark` makes each state another content.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    act: str = Field(pattern=ACT)
    run: str
    progress: ActProgress
    since: AwareDatetime
    grace_seconds: float
    mark: str = ""

    @property
    def goes_on_at(self) -> datetime | None:
        """Until when readers are waited for; None if nothing is waited for."""
        if self.progress not in (ActProgress.POINTED, ActProgress.RETURNED):
            return None
        return self.since + timedelta(seconds=self.grace_seconds)

    def at(self, progress: ActProgress, since: datetime) -> ActState:
        """Return the next state."""
        return self.model_copy(update={"progress": progress, "since": since})

    def written(self) -> bytes:
        """Return the state as an object holds it. No two writes have the same content."""
        return self.model_copy(update={"mark": uuid.uuid4().hex}).model_dump_json().encode()


def act_place(table: str) -> str:
    """Return where the state of a directory's act is."""
    return f"{table}/{OURS}/act.json"


def act_in(content: bytes, table: str) -> ActState:
    """Return the state that an object holds. Raises PermanentError if it is damaged."""
    try:
        return ActState.model_validate_json(content)
    except ValidationError as damaged:
        raise PermanentError(
            f"{act_place(table)} cannot be read: look which files of {table} hold all rows, lead the entries of its "
            "metastore back to the partitions, and remove it"
        ) from damaged


def act_of(table: str, storage: Storage) -> ActState | None:
    """Return the act that is under way in a directory of an object store; None if there is none."""
    try:
        content = storage.read(act_place(table), limit=_LARGEST)
    except FileNotFoundError:
        return None
    return None if content.startswith(_ENDED) else act_in(content, table)


# Where a directory can be compacted, and what a killed compaction has left there.


def blockers(location: str, storage: Storage, options: CompactionOptions, log: str | None) -> Iterator[Blocker]:
    """Yield why no partition can be replaced, if so. `log` is the list of a streaming sink in it, or above it."""
    if not isinstance(storage, LocalStorage):
        yield Blocker(
            code="unsupported_store",
            reason=f"partitions in the store of {location} cannot be moved away in one act",
            remedy="partitions are deleted on local disks alone: remove services.ttl",
            services=frozenset({Service.TTL}),
            only_if_configured=True,
        )
        if not is_s3(location, storage):
            yield Blocker(
                code="unsupported_store",
                reason=f"parts in progress in the store of {location} cannot be looked at file by file",
                remedy="such parts are deleted on local disks and S3: remove services.orphans",
                services=frozenset({Service.ORPHANS}),
                only_if_configured=True,
            )
    why = why_not_there(location, storage, options)
    if why is not None:
        yield Blocker(
            code="unsupported_store",
            reason=why,
            remedy=_remedy(location, storage),
            services=frozenset({Service.COMPACTION}),
        )
    if log is not None:
        listed = f"{log} may list the files of {location}: Spark's streaming sink lists its files by name there"
        if why is None:
            yield Blocker(
                code="unsupported_table",
                reason=listed,
                remedy="remove services.compaction: readers of that list would miss the files that were replaced",
                services=frozenset({Service.COMPACTION}),
            )
        yield Blocker(
            code="unsupported_table",
            reason=listed,
            remedy="remove services.ttl: readers of that list would fail at the files that were deleted",
            services=frozenset({Service.TTL}),
            only_if_configured=True,
        )


def why_not_there(location: str, storage: Storage, options: CompactionOptions) -> str | None:
    """Return why partitions cannot be replaced in the way that the options ask for; None if they can."""
    if options.publication is Publication.EXCHANGE:
        is_local = isinstance(storage, LocalStorage)
        return None if is_local else f"the store of {location} cannot exchange two folders in one act"
    if is_s3(location, storage):
        return None
    way = f"the publication {options.publication.value}"
    if isinstance(storage, LocalStorage):
        return f"{way} is for S3: partitions on local disks are exchanged, which is safer"
    return f"{way} was not tried in the store of {location}"


def _remedy(location: str, storage: Storage) -> str:
    if isinstance(storage, LocalStorage):
        return "remove services.compaction.options.publication"
    if is_s3(location, storage):
        return (
            "set services.compaction.options.publication to metastore if all readers go by options.metastore, or to "
            "with_duplicates if readers may find rows twice for a moment, or remove services.compaction"
        )
    return "directories are compacted on local disks and S3: remove services.compaction"


def is_s3(location: str, storage: Storage) -> bool:
    """Whether a directory lies on S3."""
    return location.startswith("s3://") and isinstance(storage, ObjectStorage)


def unfinished(location: str, storage: Storage, options: CompactionOptions) -> Mapping[Service, str]:
    """Return in words what earlier runs have left, by the service that acted."""
    if not isinstance(storage, LocalStorage):
        if options.publication is Publication.EXCHANGE or not is_s3(location, storage):
            return {}
        act = act_of(location, storage)
        return {} if act is None else {Service.COMPACTION: f"an act of the run {printable(act.run)} is {act.progress}"}
    names = [entry.name for entry in listed(f"{location}/{OURS}", storage, most=MOST_FILES)]
    left = Counter(Service.TTL if name.startswith(DROP) else Service.COMPACTION for name in names)
    return {service: f"a run that ended early has left {count} acts in {OURS}" for service, count in left.items()}
