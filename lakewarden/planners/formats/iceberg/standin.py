"""What stands in for the parts that are being built beside this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakewarden.planners.formats.iceberg.digests import LiveFile
from lakewarden.planners.formats.iceberg.manifests import Manifest
from lakewarden.planners.formats.iceberg.metadata import TableMetadata
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import Backlog, Hindrance, TableView, WriterActivity
from lakewarden.planners.ports import Storage, WriterEngine, WriterOption


@dataclass(frozen=True, kw_only=True, slots=True)
class Pointer:
    token: str
    metadata_file: str


class Pointers:
    def of(self, table: Table, storage: Storage) -> Pointer:
        folder = f"{table.location}/metadata"
        try:
            names = {entry.name for entry in storage.listing(folder)}
        except FileNotFoundError as error:
            raise PermanentError(f"{table.location} holds no Iceberg table") from error
        version = int(storage.read(f"{folder}/version-hint.text"))
        while f"v{version + 1}.metadata.json" in names:
            version += 1
        return Pointer(token=str(version), metadata_file=f"{folder}/v{version}.metadata.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    backlogs: Mapping[Service, Backlog] = field(default_factory=dict)
    at_rest: Mapping[Service, NotDue] = field(default_factory=dict)
    waits: Mapping[Service, NotDue] = field(default_factory=dict)
    notes: Mapping[Service, tuple[str, ...]] = field(default_factory=dict)
    hindrances: tuple[Hindrance, ...] = ()
    warnings: tuple[str, ...] = ()
    changes_at: datetime | None = None


def needs_of(
    table: Table,
    metadata: TableMetadata,
    files: Sequence[LiveFile],
    manifests: Sequence[Manifest],
    activity: WriterActivity,
    timeline: Timeline,
    *,
    now: datetime,
) -> Needs:
    return Needs()


def awaited(view: TableView, service: Service, *, step: str, instant: str | None) -> str | None:
    return None


def writer_options(
    table: Table, *, engine: WriterEngine, hook_url: str, worst_hold: timedelta | None = None
) -> tuple[WriterOption, ...]:
    return ()
