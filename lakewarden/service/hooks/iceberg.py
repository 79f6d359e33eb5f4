"""What reaches an Iceberg REST catalog after a commit, mirrored to us: metrics reports, and Polaris' notifications.

Writers on a REST catalog post a report of each commit and of each scan to `.../tables/{table}/metrics`
(`RESTMetricsReporter`; `ReportMetricsRequest` of the REST specification). Catalogs tell Polaris of their commits at
`.../tables/{table}/notifications` (`NotificationRequest` of Polaris' specification). Both name the table in the path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never
from urllib.parse import unquote

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage.locations import spelled_location
from lakewarden.service.hooks.hints import At, Hint, MalformedHookError, Named, json_object

_BETWEEN_LEVELS = "\x1f"
"""The unit separator, by which the REST specification joins the levels of a namespace."""


class Kind(StrEnum):
    """The two resources of a table that are of use as hooks."""

    METRICS = "metrics"
    NOTIFICATIONS = "notifications"


SENDERS = {Kind.METRICS: "iceberg", Kind.NOTIFICATIONS: "polaris"}
"""What the metrics call whoever sends each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """What the path of a request says: the table's identifier, and what is sent there."""

    identifier: str
    kind: Kind


def address_of(path: str) -> Address | None:
    """Return what a catalog's path (still percent-encoded) is about; None if it is neither of the two kinds.

    Whatever stands before `v1/`, and the prefix after it, are the catalog's own.
    """
    match path.split("/"):
        case [*before, "namespaces", namespace, "tables", table, "metrics" | "notifications" as kind] if (
            "v1" in before and namespace and table
        ):
            return Address(identifier=identifier_of(unquote(namespace), unquote(table)), kind=Kind(kind))
    return None


def identifier_of(namespace: str, table: str) -> str:
    """Return the identifier of a table, its namespace's levels joined as the REST specification has it, or by dots."""
    return f"{namespace.replace(_BETWEEN_LEVELS, '.')}.{table}"


def hints_of(address: Address, catalog: str | None, body: bytes, *, whole: bool = True) -> tuple[Hint, ...]:
    """Return the table that has changed; nothing for reports of scans. Raises MalformedHookError.

    Of a long report the beginning will do: its type comes first (`ReportMetricsRequestParser`).
    """
    named = Named(identifier=address.identifier, catalog=catalog)
    message = json_object(body, whole=whole)
    match address.kind:
        case Kind.METRICS:
            report = message.get("report-type")
            if not isinstance(report, str):
                raise MalformedHookError("the body has no report-type, as metrics reports of Iceberg have")
            return (named,) if report == "commit-report" else ()
        case Kind.NOTIFICATIONS:
            if not isinstance(message.get("notification-type"), str):
                raise MalformedHookError("the body has no notification-type, as notifications of Polaris have")
            payload = message.get("payload")
            metadata_file = payload.get("metadata-location") if isinstance(payload, dict) else None
            return (named, *_folder_of(metadata_file))
        case _:
            assert_never(address.kind)


def _folder_of(metadata_file: object) -> Iterator[Hint]:
    """Yield the folder of a table whose metadata lies in it: a Hadoop catalog's tables may be registered by it."""
    if not isinstance(metadata_file, str):
        return
    folder, _, _ = metadata_file.rpartition("/metadata/")
    try:
        yield At(location=spelled_location(folder))
    except PermanentError:  # then the path's name is all that is known of the table
        return
