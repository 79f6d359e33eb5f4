"""`lakewarden inspect`: the health of one table, for a person or as JSON. It needs no registered table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pydantic import ValidationError
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from lakewarden.planners.decoding.numbers import counted
from lakewarden.planners.formats.fake import FAKE
from lakewarden.planners.formats.hudi import THOROUGH
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.instant import Instant, Service, State
from lakewarden.planners.model.printable import printable, printable_values
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import Hindrance, MetadataBacklog, TableView
from lakewarden.planners.ports import Storage, TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import Storages, canonical_location
from lakewarden.planners.storage.locations import is_in_catalog, named_in_catalog
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.reporting.quantities import size, span
from lakewarden.service.reporting.terminal import Shown

if TYPE_CHECKING:
    from lakewarden.service.config.assembly import Catalog
    from lakewarden.service.config.loading import Config

_PLANNED = (Service.COMPACTION, Service.LOG_COMPACTION, Service.CLUSTERING, Service.CLEAN)
_COUNTED = (Service.COMPACTION, Service.CLUSTERING, Service.CLEAN)
_NEWEST = 10
_LONGEST_NAME = 200
_FAILED = 2
_COLOUR = {State.REQUESTED: "yellow", State.INFLIGHT: "cyan", State.COMPLETED: "green"}


def inspect_path(
    path: str | os.PathLike[str],
    *,
    as_json: bool,
    out: TextIO,
    err: TextIO,
    config: Path | None = None,
    clock: Clock | None = None,
) -> int:
    """Print the health of the table at `path` and return the exit code. `config` tells how stores and catalogs are
    reached; without it, stores as the environment says, and no catalog.

    0: all of it was read. 2: a part of the metadata could not be read (what is known is printed), or there is no
    table to read; either way with one line on `err` that says so.
    """
    now = (clock or SystemClock()).now()
    text = os.fspath(path)
    try:
        location = canonical_location(text if ":/" in text else os.path.abspath(text))  # noqa: PTH100 - may be a URI
        loaded = None if config is None else _loaded(config)
        storage = Storages(() if loaded is None else loaded.settings.storage).of(location)
        table_format, table = _recognised(location, storage, {} if loaded is None else loaded.catalogs)
        view = table_format.observe(table, storage, None, now=now).view
    except LakewardenError as error:
        _say(err, str(error))
        return _FAILED
    if as_json:
        print(json.dumps(printable_values(report(view, table_format.name), lines=False), indent=2), file=out)
    else:
        Console(file=out, highlight=False).print(Shown(rendered(view, now)))
    if view.faults:
        _say(err, f"a part of the metadata cannot be read: {'; '.join(view.faults)}")
        return _FAILED
    return 0


def _loaded(config: Path) -> Config:
    from lakewarden.service.config.loading import load  # noqa: PLC0415 - most tables need none

    return load(config)


def _recognised(location: str, storage: Storage, catalogs: Mapping[str, Catalog]) -> tuple[TableFormat, Table]:
    """Return the format of the table at a location, and the table. Raises PermanentError where no format knows it."""
    if is_in_catalog(location):
        name, _ = named_in_catalog(location)
        catalog = catalogs.get(name)
        if catalog is None:
            raise PermanentError(f"there is no catalog {name!r}: name a configuration that has it, with --config")
        return catalog.format, replace(_with_every_service(catalog.format, location), catalog=catalog.settings)
    refusals = []
    for table_format in (THOROUGH, *(one for one in FORMATS.values() if one.name not in (THOROUGH.name, FAKE.name))):
        table = _with_every_service(table_format, location)
        try:
            table_format.token(table, storage)
        except PermanentError as refusal:
            refusals.append(str(refusal))
        else:
            return table_format, table
    raise PermanentError("; ".join(refusals))


def _with_every_service(table_format: TableFormat, location: str) -> Table:
    """Return the table with a policy for each service that needs no settings: formats read what a policy asks for."""
    policies = {}
    for service, options in table_format.services.items():
        with suppress(ValidationError):
            policies[service] = Policy(trigger=NumCommits(at_least=1), options=options())
    return Table(id=TableId(location), format=table_format.name, location=location, policies=policies)


def _say(err: TextIO, message: str) -> None:
    print("lakewarden inspect:", printable(" ".join(message.split())), file=err)


def report(view: TableView, table_format: str) -> dict[str, Any]:
    """Return what `inspect --json` prints. Instants are as the format writes them, other times in UTC; null where a
    thing is not known, or the table has none of it.
    """
    instants = view.timeline.instants
    return {
        "format": table_format,
        "table_name": view.name,
        "table_type": view.kind,
        "table_version": view.version if counted(view.version) is None else counted(view.version),
        "latest_instant": max((i.time for i in instants), default=None),
        "instants": [
            {"time": i.time, "action": i.action, "state": i.state.name, "completed_at": i.completed_time}
            for i in instants
        ],
        "pending": {service.value: _pending(view.timeline.pending(service)) for service in _PLANNED},
        "commits_since": {service.value: _commits_since(view, service) for service in _COUNTED},
        "fullest_file_group": _fullest_file_group(view),
        "small_files": _small_files(view),
        "writer_failures": [
            {"instant": failure.instant, "at": failure.at.isoformat(), "reason": failure.reason}
            for failure in view.writers.failures
        ],
        "metadata_table": None if view.metadata is None else _metadata_table(view.metadata),
        "held_back": [
            {"services": sorted(h.services) or "all", "reason": h.reason, "remedy": h.remedy} for h in _of_its_own(view)
        ],
        "warnings": list(view.warnings),
    }


def _of_its_own(view: TableView) -> list[Hindrance]:
    """Return what holds services back for the table's own sake: there is no policy of a person's to be removed."""
    return [hindrance for hindrance in view.hindrances if not hindrance.moot]


def _fullest_file_group(view: TableView) -> dict[str, Any] | None:
    """Return the most log files, and the most bytes in them, of one file group; None for a table without logs."""
    backlog = view.backlogs.get(Service.COMPACTION)
    return None if backlog is None else {"log_files": backlog.log_files, "log_bytes": backlog.log_bytes}


def _small_files(view: TableView) -> int | None:
    """Return the most files that a service would make fewer; None where nobody counts them."""
    return max((b.small_files for b in view.backlogs.values() if b.small_files is not None), default=None)


def _metadata_table(backlog: MetadataBacklog) -> dict[str, Any]:
    return {
        "commits_since_compaction": backlog.commits,
        "compacted_at": None if backlog.since is None else backlog.since.isoformat(),
        "pinned_by": backlog.pinned_by,
    }


def _pending(plans: Sequence[Instant]) -> dict[str, Any]:
    return {
        "count": len(plans),
        "first": plans[0].time if plans else None,
        "instants": [plan.time for plan in plans],
        "file_groups": _sum(None if plan.plan is None else plan.plan.file_groups for plan in plans),
        "bytes": _sum(None if plan.plan is None else plan.plan.bytes for plan in plans),
    }


def _sum(parts: Iterable[int | None]) -> int | None:
    """Return the sum; None where a part is not known."""
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def _commits_since(view: TableView, service: Service) -> int:
    """Return 0 for a service that has no meaning on the table: compaction without log files."""
    backlog = view.backlogs.get(service)
    return 0 if backlog is None else backlog.commits


def rendered(view: TableView, now: datetime) -> RenderableType:
    """Return the report for a person."""
    parts: list[RenderableType] = [_title(view), _indented(_timeline(view, now)), _indented(_services(view, now))]
    if view.writers.in_flight:
        parts += [Text("writes in flight", style="bold"), _indented(_writes(view, now))]
    if view.writers.failures:
        parts += [Text("writes that failed", style="bold yellow"), _indented(_failures(view, now))]
    if found := _of_its_own(view):
        parts += [Text("services would be held back", style="bold yellow")]
        parts += [_indented(_reason(h.reason, h.remedy)) for h in found]
    for heading, style, texts in (
        ("warnings", "bold yellow", view.warnings),
        ("could not be read", "bold red", view.faults),
    ):
        if texts:
            parts += [Text(heading, style=style), *(_indented(Text(text)) for text in texts)]
    return Group(*parts)


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2))


def _title(view: TableView) -> Text:
    title = Text(printable(view.name, most=_LONGEST_NAME), style="bold")
    title.append(f"  {view.kind}, table version {view.version}\n", style="not bold")
    return title.append(f"  {view.identity.location}\n", style="not bold dim")


def _timeline(view: TableView, now: datetime) -> RenderableType:
    instants = view.timeline.instants
    if not instants:
        return Text("the timeline is empty\n", style="dim")
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("instant", "action", "state", "requested", "took"):
        grid.add_column(heading)
    for i in instants[-_NEWEST:]:
        took = "" if i.completed_at is None else span((i.completed_at - i.requested_at).total_seconds())
        state = Text(i.state.name.lower(), style=_COLOUR[i.state])
        grid.add_row(Text(i.time), Text(i.action), state, f"{span((now - i.requested_at).total_seconds())} ago", took)
    hidden = len(instants) - _NEWEST
    return Group(grid, Text(f"and {hidden} older\n" if hidden > 0 else "", style="dim"))


def _services(view: TableView, now: datetime) -> RenderableType:
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("service", "commits since", "pending", "oldest", "file groups", "bytes"):
        grid.add_column(heading, justify="left" if heading in ("service", "oldest") else "right")
    for service in _PLANNED:
        plans = view.timeline.pending(service)
        backlog = view.backlogs.get(service)
        if backlog is None and not plans:
            continue
        known = _pending(plans)
        grid.add_row(
            service.value,
            "" if backlog is None else str(backlog.commits),
            Text(str(len(plans)), style="yellow" if plans else "dim"),
            f"{span((now - plans[0].requested_at).total_seconds())} ago" if plans else "",
            "" if not plans or known["file_groups"] is None else str(known["file_groups"]),
            "" if not plans or known["bytes"] is None else size(known["bytes"]),
        )
    return Group(grid, *_files(view, now), Text(""))


def _files(view: TableView, now: datetime) -> Iterator[Text]:
    """Yield what is known of the table's files, and of its metadata table."""
    full = view.backlogs.get(Service.COMPACTION)
    if full is not None and full.log_files is not None and full.log_bytes is not None:
        yield Text(f"the fullest file group: {full.log_files} log files, {size(full.log_bytes)}")
    small = _small_files(view)
    if small is not None:
        yield Text(f"small base files: {small}")
    if view.metadata is not None:
        since = view.metadata.since
        last = "never compacted" if since is None else f"compacted {span((now - since).total_seconds())} ago"
        said = Text(f"metadata table: {view.metadata.commits} delta commits, {last}")
        pinned = view.metadata.pinned_by
        yield said if pinned is None else said.append(f", held back by {pinned}", style="yellow")


def _failures(view: TableView, now: datetime) -> RenderableType:
    lines = [
        Text(f"{failure.instant}  {failure.reason}, {span((now - failure.at).total_seconds())} ago at the latest")
        for failure in view.writers.failures[-_NEWEST:]
    ]
    return Group(*lines, Text(""))


def _writes(view: TableView, now: datetime) -> RenderableType:
    lines = []
    for write in view.writers.in_flight:
        begun = f"{write.time}  begun {span((now - write.requested_at).total_seconds())} ago, "
        lines.append(Text(begun).append(_guard(write.guarded_until, now)))
    return Group(*lines, Text(""))


def _guard(until: datetime | None, now: datetime) -> Text:
    if until is None:
        return Text("no heartbeat", style="yellow")
    left = (until - now).total_seconds()
    if left > 0:
        return Text(f"its heartbeat stands for another {span(left)}", style="green")
    return Text(f"its heartbeat ran out {span(-left)} ago", style="red")


def _reason(reason: str, remedy: str) -> Text:
    return Text(f"{reason}\n").append(remedy + "\n", style="dim")
