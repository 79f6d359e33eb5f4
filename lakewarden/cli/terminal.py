"""How answers look on a terminal and in a pipe: lists, fields, and what is watched."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from lakewarden.client import Client, StrangeError
from lakewarden.client.bodies import RunBody
from lakewarden.client.transport import DaemonAwayError, DaemonBusyError
from lakewarden.planners.model.printable import printable, size, span
from lakewarden.service.commands.printing import as_written

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


class Kind(Enum):
    """How a value is written for people."""

    PLAIN = auto()
    AGO = auto()
    """A time of RFC 3339, as how long ago it was."""
    SIZE = auto()
    SECONDS = auto()
    STATE = auto()


@dataclass(frozen=True)
class Column:
    """A column: its title, and where its value is in a body."""

    title: str
    value: str | Callable[[Any], object]
    kind: Kind = Kind.PLAIN

    def of(self, item: Mapping[str, Any]) -> object:
        """Return the value of an item. A field that the daemon does not send is None."""
        return item.get(self.value) if isinstance(self.value, str) else self.value(item)


_STYLES = {
    "SUCCEEDED": "green",
    "RUNNING": "cyan",
    "COMMITTING": "cyan",
    "FAILED": "bold red",
    "UNKNOWN": "bold red",
    "WouldRun": "cyan",
    "Blocked": "yellow",
    "DoesNotApply": "dim",
    "blocked": "yellow",
    "failing": "bold red",
    "paused": "yellow",
}


def console() -> Console:
    """Return what writes to the terminal. It takes no text for markup."""
    from rich.console import Console  # noqa: PLC0415

    return Console(file=sys.stdout, markup=False, emoji=False, highlight=False)


def show_items(items: Sequence[Mapping[str, Any]], columns: Sequence[Column], *, empty: str) -> None:
    """Print a list. If it is empty, a line says so on stderr, so a pipe gets the titles alone."""
    if not items:
        print(empty, file=sys.stderr)
    if sys.stdout.isatty():
        if items:
            console().print(listed(items, columns))
        return
    print("\t".join(column.title for column in columns))
    for item in items:
        print("\t".join(_raw(column.of(item)) for column in columns))


def listed(items: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> RenderableType:
    """Return a list as a terminal shows it."""
    from rich.table import Table  # noqa: PLC0415

    now = datetime.now(UTC)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.title, overflow="fold", justify="right" if column.kind is Kind.SIZE else "left")
    for item in items:
        table.add_row(*(cell(column.of(item), column.kind, now) for column in columns))
    return table


def show_fields(fields: Mapping[str, object], kinds: Mapping[str, Kind] | None = None) -> None:
    """Print one thing, a field a line. A field that is None is left out for people."""
    kind_of = kinds or {}
    if not sys.stdout.isatty():
        for name, value in fields.items():
            print(f"{name}\t{_raw(value)}")
        return
    from rich.table import Table  # noqa: PLC0415

    now, table = datetime.now(UTC), Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        if value not in (None, "", [], {}):
            table.add_row(name, cell(value, kind_of.get(name, Kind.PLAIN), now))
    console().print(table)


def cell(value: object, kind: Kind, now: datetime) -> Any:
    """Return a value as a terminal shows it."""
    from rich.text import Text  # noqa: PLC0415

    text = printable(_words(value, kind, now), lines=True)
    return Text(text, style=_STYLES.get(text.partition(" ")[0], "") if kind is Kind.STATE else "")


def _words(value: object, kind: Kind, now: datetime) -> str:
    match kind, value:
        case _, None | "" | [] | {}:
            return "-"
        case Kind.AGO, str():
            return _ago(value, now)
        case Kind.SIZE, int():
            return size(value)
        case Kind.SECONDS, int() | float():
            return span(value)
    return _plain(value)


def _ago(time: str, now: datetime) -> str:
    try:
        passed = (now - datetime.fromisoformat(time)).total_seconds()
    except (ValueError, TypeError):
        return time
    return f"{span(passed)} ago" if passed >= 0 else f"in {span(-passed)}"


def _plain(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case dict():
            return ", ".join(f"{name}={_plain(member)}" for name, member in value.items())
        case list() | tuple():
            return ", ".join(map(_plain, value))
    return str(value)


def _raw(value: object) -> str:
    return printable(_plain(value))


def none_of(thing: str, filters: Mapping[str, object]) -> str:
    """Return what is said in place of an empty list: there is nothing yet, or nothing that fits the filters."""
    return f"no {thing} matches these options" if any(filters.values()) else f"no {thing}s yet"


def show_list(
    page: Callable[..., Any], columns: Sequence[Column], *, limit: int, as_json: bool, empty: str, **filters: Any
) -> None:
    """Print the items of a list, at most `limit` of them; 0 means all. Each item is as the API sends it. In JSON `next`
    is the cursor of the items after these.
    """
    answer = whole(page, limit=limit, **filters)
    if as_json:
        print(as_written(answer))
    else:
        show_items(answer["items"], columns, empty=empty)


def whole(page: Callable[..., Any], *, limit: int, **filters: Any) -> dict[str, Any]:
    """Return up to `limit` items of a list as one page; 0 means all. Raises StrangeError if a page leads to itself."""
    items: list[Any] = []
    after = None
    while True:
        most = min(limit - len(items), Client.PAGE) if limit else Client.PAGE
        answer = page(**filters, limit=most, after=after)
        items += answer["items"]
        following = answer.get("next")
        if following is None or (limit and len(items) >= limit):
            return {**answer, "items": items}
        if following == after:
            raise StrangeError(f"the page after {after!r} leads to itself")
        after = following


_EVERY_SECONDS = 1.0
_PATIENCE = 30


def watch_run(ask: Callable[[], RunBody], *, quiet: bool) -> RunBody:
    """Show a run until it has ended, and return it. Raises ClientError, also if no daemon answers for half a minute."""
    last, left = None, 0
    while True:
        try:
            run = ask()
        except (DaemonAwayError, DaemonBusyError):  # it may be started again. The first question is not repeated
            left -= 1
            if left < 0:
                raise
            time.sleep(_EVERY_SECONDS)
            continue
        left = _PATIENCE
        if (line := _line(run)) != last and not quiet:
            print(line, flush=True)
            last = line
        if run["ended_at"] is not None:
            return run
        time.sleep(_EVERY_SECONDS)


def _line(run: RunBody) -> str:
    step = f" ({run['step']})" if run["step"] and run["ended_at"] is None else ""
    why = run["outcome"] or run["waits_for"] or ""
    return printable(f"{run['id']}  {run['table']}  {run['service']}  {run['state']}{step}  {why}".rstrip())
