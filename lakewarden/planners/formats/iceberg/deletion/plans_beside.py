"""The plan of a deletion, beside the table's metadata. It says what is going to be deleted, and what was deleted.

The file is `metadata/lakewarden-<service>.json` below the table's folder. The worker writes it through the table's own
FileIO, which cannot replace a file atomically on disks. So each version is written twice, first to a second file beside
it. If the file itself is cut off, the second one is whole and means the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import count, from_json, long, moment
from lakewarden.planners.formats.iceberg.deletion.refs import NamedRef
from lakewarden.planners.formats.iceberg.metadata.metadata import CorruptMetadataError
from lakewarden.planners.formats.iceberg.metadata.timeline import time_of
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Instant, RunId, Service, State
from lakewarden.planners.ports import Storage

DELETING = (Service.CLEAN, Service.ORPHANS)
"""The services that have such a plan."""

REMEMBERED = 20
"""How many completed plans are kept for the timeline."""

_ACTIONS: Mapping[Service, str] = {Service.CLEAN: "expire_snapshots", Service.ORPHANS: "remove_orphan_files"}


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionPlan:
    """One plan. It is INFLIGHT before its run changes anything.

    `snapshots` are the snapshots to expire, `refs` the branches and tags. `files` is the number of files in its list.
    `data_files` of them hold rows or deletes. Files that the plan left out wait, the first of them until `waits_until`.
    It is None if there are none. `left_over` is the number of files that could also be deleted, but are too many for
    one list. They count for the deletion budget of this plan.
    """

    instant: str
    run: RunId
    requested_at: datetime
    state: State
    snapshots: tuple[int, ...]
    files: int
    data_files: int
    completed_at: datetime | None = None
    waits_until: datetime | None = None
    left_over: int = 0
    refs: tuple[NamedRef, ...] = ()

    def done(self, at: datetime) -> DeletionPlan:
        """Return the plan as it is remembered after it was carried out."""
        return replace(self, state=State.COMPLETED, completed_at=at, snapshots=(), refs=())


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanBeside:
    """The plans beside a table for one service: the pending plan, and the completed ones, the newest first.

    `others` is what the last listing of the table's folder showed of others in it, by folder and in words.
    `table` is the table's uuid. A plan of a table that was dropped and created again at the same place does not count.
    """

    service: Service
    table: str
    pending: DeletionPlan | None = None
    completed: tuple[DeletionPlan, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)

    def with_completed(self, at: datetime) -> PlanBeside:
        """Return the same with the pending plan among the completed ones."""
        if self.pending is None:
            return self
        return replace(self, pending=None, completed=(self.pending.done(at), *self.completed)[:REMEMBERED])


def plan_beside(service: Service, location: str, storage: Storage, *, uuid: str) -> PlanBeside | None:
    """Return the plans beside the table with this `uuid` in the folder `location` (canonical). None if there are none.

    It takes one request if there is no file or the file is whole. Raises CorruptMetadataError if neither of its two
    places can be read, and TemporaryError.
    """
    try:
        plan = _parsed(storage.read(file_of(service, location)), service)
    except FileNotFoundError:
        return None
    except CorruptMetadataError:
        try:
            plan = _parsed(storage.read(file_of(service, location, beside=True)), service)
        except FileNotFoundError as missing:
            raise CorruptMetadataError(
                f"{file_of(service, location)} is not a whole plan of a deletion: delete it, and run orphans"
            ) from missing
    return plan if plan.table == uuid else None


def waits_until(plans: Iterable[PlanBeside | None], service: Service) -> datetime | None:
    """Return when the first of the files may be deleted that the last completed plan of a service has left out."""
    last = (plan.completed[0] for plan in plans if plan is not None and plan.service is service and plan.completed)
    return next((plan.waits_until for plan in last), None)


def file_of(service: Service, location: str, *, beside: bool = False) -> str:
    """Return the path of the plan, or of the version `beside` it that is written first."""
    return f"{location}/metadata/lakewarden-{service}{'.next' if beside else ''}.json"


def list_of(service: Service, location: str, run: RunId) -> str:
    """Return the path of the list of files that a run plans to delete."""
    return f"{location}/metadata/lakewarden-{service}-{run}.files"


def seen_file_of(location: str) -> str:
    """Return the path of the list that says since when files are unknown (`first_seen`)."""
    return f"{location}/metadata/lakewarden-orphans.seen"


def instant_of(service: Service, run: RunId, at: datetime) -> str:
    """Return the name of the plan that a run makes at this time."""
    return time_of(at, f"{service}-{run}")


def instants(plans: Iterable[PlanBeside | None]) -> tuple[Instant, ...]:
    """Return the plans as the timeline shows them, the oldest first."""
    plan_instants = [
        Instant(
            time=plan.instant,
            action=_ACTIONS[beside.service],
            stands_for=beside.service,
            state=plan.state,
            requested_at=plan.requested_at,
            completed_time=None if plan.completed_at is None else plan.instant,
            completed_at=plan.completed_at,
            author=plan.run,
        )
        for beside in plans
        if beside is not None
        for plan in (*beside.completed, *([] if beside.pending is None else [beside.pending]))
    ]
    return tuple(sorted(plan_instants, key=lambda instant: instant.time))


def content_of(beside: PlanBeside) -> bytes:
    """Return the content of the file."""
    pending = None if beside.pending is None else _raw(beside.pending)
    return json.dumps(
        {
            "version": _VERSION,
            "service": beside.service.value,
            "table-uuid": beside.table,
            "pending": pending,
            "completed": [_raw(plan) for plan in beside.completed],
            "others": dict(beside.others),
        },
        indent=1,
    ).encode()


_VERSION = 1


def _raw(plan: DeletionPlan) -> Mapping[str, Any]:
    return {
        "instant": plan.instant,
        "run": plan.run,
        "requested-ms": _milliseconds(plan.requested_at),
        "state": plan.state.name.lower(),
        "snapshot-ids": plan.snapshots,
        "refs": plan.refs,
        "files": plan.files,
        "data-files": plan.data_files,
        "left-over": plan.left_over,
        "completed-ms": None if plan.completed_at is None else _milliseconds(plan.completed_at),
        "waits-until-ms": None if plan.waits_until is None else _milliseconds(plan.waits_until),
    }


def _parsed(content: bytes, service: Service) -> PlanBeside:
    try:
        raw = from_json(content)
        if raw["version"] != _VERSION:
            raise PermanentError(f"the plan of {service} beside the table is of another version, {raw['version']}")
        return PlanBeside(
            service=service,
            table=str(raw["table-uuid"]),
            pending=None if raw["pending"] is None else _plan(raw["pending"]),
            completed=tuple(map(_plan, raw["completed"])),
            others={str(folder): str(what) for folder, what in raw.get("others", {}).items()},
        )
    except (DamagedError, ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise CorruptMetadataError(
            f"the plan of {service} beside the table is not whole: {repr(wrong)[:200]}"
        ) from wrong


def _plan(raw: Mapping[str, Any]) -> DeletionPlan:
    completed, waits = raw["completed-ms"], raw["waits-until-ms"]
    return DeletionPlan(
        instant=str(raw["instant"]),
        run=RunId(str(raw["run"])),
        requested_at=moment(raw["requested-ms"], "requested-ms"),
        state=State[str(raw["state"]).upper()],
        snapshots=tuple(map(long, raw["snapshot-ids"])),
        files=count(raw["files"], "files"),
        data_files=count(raw["data-files"], "data-files"),
        completed_at=None if completed is None else moment(completed, "completed-ms"),
        waits_until=None if waits is None else moment(waits, "waits-until-ms"),
        left_over=count(raw["left-over"], "left-over"),
        refs=tuple((str(name), long(snapshot)) for name, snapshot in raw.get("refs", ())),
    )


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)
