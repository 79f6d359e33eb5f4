"""CloudEvents 1.0 over HTTP, in binary and structured mode. A bridge from Kafka or NATS forwards the events of
catalogs.

Lakekeeper emits CloudEvents. The type is the operation (`updateTable`). The extensions `namespace` and `name` have the
table. The data is the request (`events/publisher.rs`). Polaris emits JSON with an `event_type` (`AFTER_UPDATE_TABLE`).
The table is in `table_identifier`, or in `namespace` and `table_name` (`EventToJsonMapper`). A bridge wraps this JSON
as data.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, assert_never
from urllib.parse import unquote

from lakewarden.planners.hooks import At, Hint, MalformedHookError, Named, identifier_of, json_object
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage.locations import by_place, is_in_catalog, named_in_catalog

_STRUCTURED = "application/cloudevents+json"
_BATCH = "application/cloudevents-batch"
_REQUIRED = ("specversion", "id", "source", "type")
_CHANGES = frozenset(
    {
        *("updateTable", "createTable", "dropTable", "renameTable", "registerTable"),  # Lakekeeper
        *("AFTER_UPDATE_TABLE", "AFTER_CREATE_TABLE", "AFTER_DROP_TABLE", "AFTER_RENAME_TABLE"),  # Polaris
        *("AFTER_REGISTER_TABLE", "AFTER_COMMIT_TRANSACTION"),
    }
)


def hints_of(headers: Mapping[str, str], catalog: str | None, body: bytes) -> tuple[Hint, ...]:
    """Return the tables that have changed according to an event. There are none if the event is about something else.

    `headers` have lower-case names. Raises MalformedHookError.
    """
    attributes, data = _event(headers, body)
    for name in _REQUIRED:
        if not isinstance(attributes.get(name), str):
            raise MalformedHookError(f"the event has no {name}, as every CloudEvent has")
    event_type = data.get("event_type")
    kind = event_type if isinstance(event_type, str) else attributes["type"].rpartition(".")[2]
    if kind not in _CHANGES:
        return ()
    names = dict.fromkeys((*_named_by(attributes), *_named_by(data)))
    return tuple(Named(identifier=name, catalog=catalog) for name in names)


def _event(headers: Mapping[str, str], body: bytes) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the attributes of an event and its data. If the data is no JSON object, it is empty."""
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type.startswith(_BATCH):
        raise MalformedHookError("a batch of events is not taken: let the bridge send one event per request")
    if content_type == _STRUCTURED:
        event = json_object(body)
        return event, _object(event.get("data"))
    if "ce-type" not in headers:
        raise MalformedHookError(f"the request is no CloudEvent: it has neither headers ce-... nor type {_STRUCTURED}")
    attributes = {name.removeprefix("ce-"): unquote(value) for name, value in headers.items() if name.startswith("ce-")}
    try:
        return attributes, _object(json.loads(body or b"null"))
    except (ValueError, RecursionError) as wrong:
        raise MalformedHookError("the event's data is not JSON") from wrong


def _named_by(attributes: Mapping[str, Any]) -> Iterator[str]:
    """Yield the identifiers of the tables in attributes or data, in all known forms."""
    name = attributes.get("table_name", attributes.get("name"))
    if isinstance(name, str):
        yield from _identifier(attributes.get("namespace"), name)
    for key in ("table_identifier", "identifier", "source", "destination"):
        match attributes.get(key):
            case [*levels, str(table)]:
                yield from _identifier(levels, table)
            case {"namespace": namespace, "name": str(table)}:
                yield from _identifier(namespace, table)
    changes = attributes.get("table-changes")
    for change in changes if isinstance(changes, list) else ():
        yield from _named_by(_object(change))


def _identifier(namespace: object, table: str) -> Iterable[str]:
    if isinstance(namespace, list) and namespace and all(isinstance(level, str) for level in namespace):
        namespace = ".".join(namespace)
    return (identifier_of(namespace, table),) if isinstance(namespace, str) else ()


def _object(member: object) -> Mapping[str, Any]:
    return member if isinstance(member, dict) else {}


# The registered tables, by the values of hints.


class KnownTables:
    """The registered tables, by the values of hints."""

    def __init__(self, tables: Iterable[Table]) -> None:
        self._at: dict[str, TableId] = {}
        self._named: defaultdict[str, dict[str, TableId]] = defaultdict(dict)
        for table in tables:
            self._at[by_place(table.location)] = table.id
            if is_in_catalog(table.location):
                catalog, identifier = named_in_catalog(table.location)
                self._named[identifier][catalog] = table.id

    def meant_by(self, hint: Hint) -> tuple[TableId, ...]:
        """Return the registered tables that a hint is about."""
        match hint:
            case At(location=location):
                known_at = self._at.get(by_place(location))
                return () if known_at is None else (known_at,)
            case Named(identifier=identifier, catalog=catalog):
                by_catalog = self._named.get(identifier, {})
                return tuple(table for name, table in by_catalog.items() if catalog in (None, name))
            case _:
                assert_never(hint)
