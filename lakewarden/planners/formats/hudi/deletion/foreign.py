"""Plans that name files outside their table. They are reported, and never executed.

A copied table has the pending plans of its original, with the original's whole paths. Executed on the copy, they would
delete files of the original. A plan may also be forged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lakewarden.planners.formats.hudi.deletion.readers import in_folder, named_by
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, InstantFiles, Layout, collapse
from lakewarden.planners.formats.hudi.metadata.payloads import (
    MALFORMED,
    Chunks,
    UnreadableError,
    read_chunks,
    whole_timeline,
)
from lakewarden.planners.formats.hudi.metadata.properties import (
    HOME,
    TIMELINE,
    TableProperties,
    parse_properties,
    read_table_properties,
)
from lakewarden.planners.formats.hudi.metadata.tokens import Reading
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.instant import Service, State, Timeline
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.storage.content import listed
from lakewarden.planners.storage.inside import Home

_HELD: Mapping[Action, frozenset[Service]] = {
    Action.CLEAN: frozenset({Service.CLEAN}),
    Action.COMPACTION: frozenset({Service.COMPACTION}),
    Action.LOGCOMPACTION: frozenset({Service.LOG_COMPACTION}),
    Action.CLUSTERING: frozenset({Service.CLUSTERING}),
    Action.REPLACECOMMIT: frozenset({Service.CLUSTERING}),
    Action.ROLLBACK: frozenset(),
}
"""The plans that are judged, and the services by which Hudi would execute them. An empty set means all services: Hudi
executes such a plan in the course of something else."""

_COMPACTIONS = frozenset({Action.COMPACTION, Action.LOGCOMPACTION})
_LEAVE_NO_ROWS = frozenset({Action.CLEAN, Action.ROLLBACK})

_MARKERS = re.compile(r"MARKERS\d+")
_SHOWN = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Stray:
    """The first path of a plan that lies outside its table, the reason, and the table for which the plan seems to be
    made.
    """

    path: str
    why: str
    home: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignPlan:
    """A pending plan that would touch files outside its table. `services` may not run (none: all). `file` is the plan
    itself.
    """

    action: Action
    time: str
    stray: Stray
    services: frozenset[Service]
    file: str

    def __str__(self) -> str:
        """Return in words which plan it is and what is wrong with it."""
        return f"the pending {self.action} {self.time} names {_short(self.stray.path)}, which {self.stray.why}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineRoot:
    """A table, or its metadata table, with the place of its timeline. Each commit to the table executes the plans of
    the metadata table. So a foreign plan there blocks `everything`.
    """

    location: str
    timeline: str
    partitioned: bool
    everything: bool = False

    @staticmethod
    def of_table(location: str, properties: TableProperties) -> TimelineRoot:
        """Return the table itself."""
        return TimelineRoot(location=location, timeline=properties.timeline_folder, partitioned=properties.partitioned)

    @staticmethod
    def of_metadata(location: str, properties: TableProperties) -> TimelineRoot:
        """Return its metadata table. It always has its table's layout, because both are upgraded together."""
        home = f"{location}/{HOME}/metadata"
        timeline = f"{home}/{HOME}" if properties.layout is Layout.V1 else f"{home}/{HOME}/{TIMELINE}"
        return TimelineRoot(location=home, timeline=timeline, partitioned=True, everything=True)

    def judge(self, action: Action) -> Judge:
        """Return what judges a plan of this action."""
        return Judge(action, self.location, self.partitioned)

    def holds(self, action: Action) -> frozenset[Service]:
        """Return the services that a foreign plan of this action blocks. An empty set means all."""
        return frozenset() if self.everything else _HELD[action]


@dataclass(frozen=True, slots=True)
class Judge:
    """Finds the first stray path in a plan. As a memo's decoder it equals another of the same table."""

    action: Action
    location: str
    partitioned: bool

    def __call__(self, chunks: Chunks) -> Stray | None:
        """Return the first stray path. None if every path lies in the table, or nothing is planned."""
        home = Home(self.location, private=(HOME,))
        for record in chunks:
            for named in named_by(self.action, record, location=self.location, partitioned=self.partitioned):
                why = home.why_outside(named.path, whole_folder=named.whole_folder)
                if why is not None:
                    return Stray(path=named.path, why=why, home=named.home)
        return None


def foreign_plans(instants: Iterable[InstantFiles], ground: TimelineRoot, reading: Reading) -> Iterator[ForeignPlan]:
    """Yield the foreign plans among the pending ones. Plans that cannot be read are left to their decoders."""
    for instant, entry in _plans(instants):
        judge = ground.judge(instant.action)
        stray = reading.fact_if_whole(entry, judge)
        if stray is not None:
            reading.forget(entry, judge)  # a link may be repaired: then the plan is not foreign any more
            yield _foreign(instant, entry, stray, ground)


def foreign_plan_for(
    service: Service, location: str, storage: Storage, *, earlier_timeline: Timeline | None = None
) -> ForeignPlan | None:
    """Read the timelines of the table and of its metadata table anew. Return the first foreign plan among those that
    Hudi may execute by this service.

    An instant that was begun and has not ended counts as a plan. Hudi plans its rollback from its metadata and its
    markers, and executes it in the same call.

    Raises TemporaryError if such a plan, or a timeline, cannot be read whole, and PermanentError if the location holds
    no Hudi table.
    """
    properties = read_table_properties(location, storage)
    table, metadata = TimelineRoot.of_table(location, properties), TimelineRoot.of_metadata(location, properties)
    for ground, instants in (
        (metadata, collapse(listed(metadata.timeline, storage), properties.layout)),
        (table, whole_timeline(properties, storage, known=earlier_timeline)),
    ):
        for instant, entry in _plans(instants):
            held = ground.holds(instant.action)
            if held and service not in held:
                continue
            stray = _surely(instant, entry, ground, storage)
            if stray is not None:
                return _foreign(instant, entry, stray, ground)
        for instant, entry in _begun(instants):
            stray = _surely(instant, entry, ground, storage) or _stray_marker(instant, ground, storage)
            if stray is not None:
                return _foreign(instant, entry, stray, ground, everything=True)
    return None


def blockers(plans: Iterable[ForeignPlan]) -> Iterator[Blocker]:
    """Yield what each of the plans blocks, and the remedy. Pure."""
    for plan in plans:
        home = plan.stray.home
        original = "" if home is None else f". The table looks like a copy of the one in {_short(home)}, or was moved"
        yield Blocker(
            services=plan.services,
            code="moved_or_copied",
            reason=f"{plan}: it is not executed{original}",
            remedy="if both places are one folder: register the table under the path that its writers use. If the "
            f"table is a copy or was moved: {_withdrawal(plan)}. What is deleted is planned again. In any other case: "
            "find out who made the plan",
        )


def _withdrawal(plan: ForeignPlan) -> str:
    """Return how to withdraw a plan. One that was begun has left files, and an archive beyond it would make them part
    of the table. In layout 1 log files that were written after the plan of a compaction bear its time. Without the
    plan, no reader merges them with the base file before it (`HoodieFileGroup.addLogFile`).
    """
    if plan.action in _LEAVE_NO_ROWS:
        return f"delete {plan.file}, and the file of its time with .inflight"
    logs = f" and no log file with {plan.time} in its name" if plan.action in _COMPACTIONS else ""
    return (
        f"stop its writers. If there is no .inflight of {plan.time}{logs}, delete {plan.file}. Otherwise copy the "
        "table again from a moment without this plan"
    )


def _plans(instants: Iterable[InstantFiles]) -> Iterator[tuple[InstantFiles, FileEntry]]:
    """Yield each file with the plan of a pending instant. Older releases execute an inflight instant by its inflight
    file, newer ones by its request.
    """
    for instant in instants:
        if instant.state is not State.COMPLETED and instant.action in _HELD:
            yield from (
                (instant, entry) for entry in (instant.requested, instant.inflight) if entry is not None and entry.size
            )


def _begun(instants: Iterable[InstantFiles]) -> Iterator[tuple[InstantFiles, FileEntry]]:
    """Yield each write and rewrite that was begun and has not ended, with its inflight file."""
    for instant in instants:
        if instant.state is State.INFLIGHT and instant.inflight is not None and instant.action.completed_as in COMMITS:
            yield instant, instant.inflight


def _stray_marker(instant: InstantFiles, ground: TimelineRoot, storage: Storage) -> Stray | None:
    """Return the first marker that names a file outside the table. Markers of Hudi's timeline server are lines of files
    (`MarkerUtils`). Others are files themselves. Their names cannot lead anywhere.
    """
    home, folder = Home(ground.location, private=(HOME,)), f"{ground.location}/{HOME}/.temp/{instant.time}"
    for entry in listed(folder, storage):
        if not _MARKERS.fullmatch(entry.name):
            continue
        try:
            lines = storage.read(f"{folder}/{entry.name}").decode(errors="replace").splitlines()
        except FileNotFoundError:
            continue
        except LakewardenError as error:
            raise TemporaryError(f"the markers of {instant.action} {instant.time} cannot be read: {error}") from error
        for path in (in_folder(ground.location, line) for line in lines if line):
            why = home.why_outside(path)
            if why is not None:
                return Stray(path=path, why=why, home=None)
    return None


def _surely(instant: InstantFiles, entry: FileEntry, ground: TimelineRoot, storage: Storage) -> Stray | None:
    try:
        return ground.judge(instant.action)(read_chunks(storage, f"{ground.timeline}/{entry.name}", size=entry.size))
    except FileNotFoundError:
        return None  # completed or withdrawn meanwhile: it cannot be executed any more
    except (LakewardenError, UnreadableError, *MALFORMED) as error:
        if entry is instant.inflight:  # Hudi's client in the worker does not read it
            return None
        raise TemporaryError(f"{entry.name} cannot be read: {error}") from error


def _foreign(
    instant: InstantFiles, entry: FileEntry, stray: Stray, ground: TimelineRoot, *, everything: bool = False
) -> ForeignPlan:
    return ForeignPlan(
        action=instant.action,
        time=instant.time,
        stray=stray,
        services=frozenset() if everything else ground.holds(instant.action),
        file=f"{ground.timeline}/{entry.name}",
    )


def _short(path: str) -> str:
    return path if len(path) <= _SHOWN else f"{path[:_SHOWN]}..."


# The folders in which Hudi writes and deletes for a table, besides those of its data. They must lie in the table, too.
#
# The table's own properties name some of them, and any of them may be a link.

_PROPERTIES = "hoodie.properties"
_LARGEST = 2**20


def stray_folder(location: str, properties: TableProperties, *, named: Mapping[str, str] | None = None) -> str | None:
    """Return in words which of the table's folders leads out of it, and why. None if none does.

    `named` is what `hoodie.properties` says. Without it the folders are those of a table that names none.
    """
    home = Home(location)
    for what, path in _folders(location, properties, named or {}):
        why = home.why_outside(path, whole_folder=True)
        if why is not None:
            return f"{what} of the table is {path[:300]}, which {why}"
    return None


def named_folders(location: str, storage: Storage) -> Mapping[str, str]:
    """Return what `hoodie.properties` says now. Raises TemporaryError while the file is missing: it is replaced."""
    try:
        return parse_properties(storage.read(f"{location}/{HOME}/{_PROPERTIES}", limit=_LARGEST))
    except FileNotFoundError as gone:
        raise TemporaryError(f"{_PROPERTIES} of {location} is not there") from gone


def blocker(finding: str) -> Blocker:
    """Return the blocker for such a folder. It blocks every service, because every commit may write there."""
    return Blocker(
        code="moved_or_copied",
        reason=f"{finding}: what Hudi writes or deletes there may be another table's",
        remedy="make it a folder inside the table, or remove the property that names it",
    )


def _folders(location: str, properties: TableProperties, named: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each folder with its name for people (`HoodieTableMetaClient`, `HoodieTableConfig`)."""
    home = f"{location}/{HOME}"
    yield "the home", home
    yield "the timeline", properties.timeline_folder
    for name in ("metadata", ".temp", ".aux", ".heartbeat"):
        yield name, f"{home}/{name}"
    if properties.layout is Layout.V1:
        yield "the archive", in_folder(home, named.get("hoodie.archivelog.folder") or "archived")
    else:
        history = named.get("hoodie.timeline.history.path") or "history"
        yield "the history", in_folder(properties.timeline_folder or f"{home}/{TIMELINE}", history)
    if named.get("hoodie.table.index.defs.path"):
        yield "the definitions of indexes", in_folder(location, named["hoodie.table.index.defs.path"])
