"""Plans that name files outside their table: none of them is executed, and which they are is said.

A copied table carries the pending plans of the one that it was copied from, with that one's whole paths: executed on
the copy, they would delete the files of the original. A plan may also be made up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakewarden.planners.formats.hudi.deletion.named import in_folder, named_by
from lakewarden.planners.formats.hudi.metadata.memo import Reading
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, InstantFiles, Layout, collapse
from lakewarden.planners.formats.hudi.metadata.payloads import MALFORMED, Pieces, UnreadableError, read_pieces
from lakewarden.planners.formats.hudi.metadata.table_properties import (
    HOME,
    TIMELINE,
    TableProperties,
    read_table_properties,
)
from lakewarden.planners.formats.hudi.metadata.whole import whole_timeline
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.instant import Service, State
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import Hindrance
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.storage.inside import Home

_HELD: Mapping[Action, frozenset[Service]] = {
    Action.CLEAN: frozenset({Service.CLEAN}),
    Action.COMPACTION: frozenset({Service.COMPACTION}),
    Action.LOGCOMPACTION: frozenset({Service.LOG_COMPACTION}),
    Action.CLUSTERING: frozenset({Service.CLUSTERING}),
    Action.REPLACECOMMIT: frozenset({Service.CLUSTERING}),
    Action.ROLLBACK: frozenset(),
}
"""The plans that are judged, and which services Hudi would execute them by: all (none named), where it does so on its
way to something else."""

_MARKERS = re.compile(r"MARKERS\d+")
_SHOWN = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Stray:
    """The first path of a plan that does not lie in its table, why not, and which table the plan seems to be of."""

    path: str
    why: str
    home: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignPlan:
    """A pending plan that would touch what is not its table's. `services` are those that may not run (none: all);
    `file` is the plan itself.
    """

    action: Action
    time: str
    stray: Stray
    services: frozenset[Service]
    file: str

    def __str__(self) -> str:
        """Return, for people, which plan it is and what is wrong with it."""
        return f"the pending {self.action} {self.time} names {_shown(self.stray.path)}, which {self.stray.why}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """A table, or its metadata table, with where its timeline lies. Plans of the metadata table are executed as a part
    of each commit to the table, so they hold back `everything`.
    """

    location: str
    timeline: str
    partitioned: bool
    everything: bool = False

    @staticmethod
    def of_table(location: str, properties: TableProperties) -> Ground:
        """Return the table itself."""
        return Ground(location=location, timeline=properties.timeline_folder, partitioned=properties.partitioned)

    @staticmethod
    def of_metadata(location: str, properties: TableProperties) -> Ground:
        """Return its metadata table, which always has the layout of its table: they are upgraded together."""
        home = f"{location}/{HOME}/metadata"
        timeline = f"{home}/{HOME}" if properties.layout is Layout.V1 else f"{home}/{HOME}/{TIMELINE}"
        return Ground(location=home, timeline=timeline, partitioned=True, everything=True)

    def holds(self, action: Action) -> frozenset[Service]:
        """Return the services that a foreign plan of this action holds back; none named: all."""
        return frozenset() if self.everything else _HELD[action]


@dataclass(frozen=True, slots=True)
class Judge:
    """Finds the first stray path in the record of a plan: a memo's decoder, equal to another of the same table."""

    action: Action
    location: str
    partitioned: bool

    def __call__(self, record: Mapping[str, Any] | None) -> Stray | None:
        """Return it; None if every path lies in the table, or nothing is planned."""
        return self.of(() if record is None else (record,))

    def of(self, pieces: Pieces, /) -> Stray | None:
        """Return the same of a record that may come in pieces."""
        home = Home(self.location, private=(HOME,))
        for record in pieces:
            for named in named_by(self.action, record, location=self.location, partitioned=self.partitioned):
                why = home.why_outside(named.path, whole_folder=named.whole_folder)
                if why is not None:
                    return Stray(path=named.path, why=why, home=named.home)
        return None


def foreign_plans(instants: Iterable[InstantFiles], ground: Ground, reading: Reading) -> Iterator[ForeignPlan]:
    """Yield the foreign ones of the pending plans. One that cannot be read is left to whoever decodes it."""
    for one, entry in _plans(instants):
        judge = Judge(one.action, ground.location, ground.partitioned)
        stray = reading.fact_if_whole(entry, judge)
        if stray is not None:
            reading.forget(entry, judge)  # a link may be mended, and then it is foreign no more
            yield _foreign(one, entry, stray, ground)


def foreign_plan_for(
    service: Service, location: str, storage: Storage, *, known: Timeline | None = None
) -> ForeignPlan | None:
    """Read the timelines of the table and of its metadata table anew, and return the first foreign plan among all those
    that Hudi may execute by this service.

    What has been begun and not ended counts as one: Hudi plans from what it says of itself, and from its markers, what
    undoing it means, and executes that in one call.

    Raises TemporaryError where such a plan, or a timeline, cannot be read whole, and PermanentError if the location
    holds no Hudi table.
    """
    properties = read_table_properties(location, storage)
    table, metadata = Ground.of_table(location, properties), Ground.of_metadata(location, properties)
    for ground, instants in (
        (metadata, collapse(_listing(metadata.timeline, storage), properties.layout)),
        (table, whole_timeline(properties, storage, known=known)),
    ):
        for one, entry in _plans(instants):
            held = ground.holds(one.action)
            if held and service not in held:
                continue
            stray = _surely(one, entry, Judge(one.action, ground.location, ground.partitioned), ground, storage)
            if stray is not None:
                return _foreign(one, entry, stray, ground)
        for one, entry in _begun(instants):
            judge = Judge(one.action, ground.location, ground.partitioned)
            stray = _surely(one, entry, judge, ground, storage) or _stray_marker(one, judge, storage)
            if stray is not None:
                return _foreign(one, entry, stray, ground, everything=True)
    return None


def hindrances(plans: Iterable[ForeignPlan]) -> Iterator[Hindrance]:
    """Yield what each of the plans holds back, and what a person does about it. Pure."""
    for plan in plans:
        home = plan.stray.home
        whose = "" if home is None else f". The table looks like a copy of the one in {_shown(home)}, or was moved"
        yield Hindrance(
            services=plan.services,
            reason=f"{plan}: nothing of it is executed{whose}",
            remedy=f"if the table is a copy, or was moved: delete {plan.file}, and what bears its time and .inflight; "
            "it is planned anew. If both places are one folder: register the table under the path that its writers "
            "use. If neither: find out who made the plan",
        )


def _plans(instants: Iterable[InstantFiles]) -> Iterator[tuple[InstantFiles, FileEntry]]:
    """Yield each file with the plan of a pending instant. Older releases execute what is in flight as that file says,
    newer ones as the request does.
    """
    for one in instants:
        if one.state is not State.COMPLETED and one.action in _HELD:
            yield from ((one, entry) for entry in (one.requested, one.inflight) if entry is not None and entry.size)


def _begun(instants: Iterable[InstantFiles]) -> Iterator[tuple[InstantFiles, FileEntry]]:
    """Yield each write and rewrite that has been begun and not ended, with the file that says so."""
    for one in instants:
        if one.state is State.INFLIGHT and one.inflight is not None and one.action.completed_as in COMMITS:
            yield one, one.inflight


def _stray_marker(one: InstantFiles, judge: Judge, storage: Storage) -> Stray | None:
    """Return the first marker that names a file outside the table. Those of Hudi's timeline server are lines of files
    (`MarkerUtils`); the others are files themselves, whose names cannot lead anywhere.
    """
    home, folder = Home(judge.location, private=(HOME,)), f"{judge.location}/{HOME}/.temp/{one.time}"
    for entry in _listing(folder, storage):
        if not _MARKERS.fullmatch(entry.name):
            continue
        try:
            lines = storage.read(f"{folder}/{entry.name}").decode(errors="replace").splitlines()
        except FileNotFoundError:
            continue
        except LakewardenError as error:
            raise TemporaryError(f"the markers of {one.action} {one.time} cannot be read: {error}") from error
        for path in (in_folder(judge.location, line) for line in lines if line):
            why = home.why_outside(path)
            if why is not None:
                return Stray(path=path, why=why, home=None)
    return None


def _surely(one: InstantFiles, entry: FileEntry, judge: Judge, ground: Ground, storage: Storage) -> Stray | None:
    try:
        return judge.of(read_pieces(storage, f"{ground.timeline}/{entry.name}", size=entry.size))
    except FileNotFoundError:
        return None  # completed or withdrawn meanwhile: nobody can execute it any more
    except (LakewardenError, UnreadableError, *MALFORMED) as error:
        if entry is one.inflight:  # our client does not read it
            return None
        raise TemporaryError(f"{entry.name} cannot be read: {error}") from error


def _listing(folder: str, storage: Storage) -> Iterable[FileEntry]:
    try:
        return storage.listing(folder)
    except FileNotFoundError:
        return ()


def _foreign(
    one: InstantFiles, entry: FileEntry, stray: Stray, ground: Ground, *, everything: bool = False
) -> ForeignPlan:
    return ForeignPlan(
        action=one.action,
        time=one.time,
        stray=stray,
        services=frozenset() if everything else ground.holds(one.action),
        file=f"{ground.timeline}/{entry.name}",
    )


def _shown(path: str) -> str:
    return path if len(path) <= _SHOWN else f"{path[:_SHOWN]}..."
