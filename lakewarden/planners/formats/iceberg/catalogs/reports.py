"""The requests that writers and catalogs send after a commit: metrics reports of Iceberg, and notifications of Polaris.

Writers with a REST catalog post a report of each commit and of each scan to `.../tables/{table}/metrics`
(`RESTMetricsReporter`; `ReportMetricsRequest` of the REST specification). Catalogs tell Polaris of their commits at
`.../tables/{table}/notifications` (`NotificationRequest` of Polaris' specification). Both name the table in the path. A
mirror of these requests is a hook.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never
from urllib.parse import unquote

from lakewarden.planners.hooks import (
    At,
    CommitHook,
    Hint,
    HookReader,
    MalformedHookError,
    Named,
    identifier_of,
    json_object,
)
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage.locations import spelled_location


class HookResource(StrEnum):
    """The two resources of a table that can serve as hooks."""

    METRICS = "metrics"
    NOTIFICATIONS = "notifications"


SENDERS = {HookResource.METRICS: "iceberg", HookResource.NOTIFICATIONS: "polaris"}
"""The label of the sender in the metrics, by kind."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """What the path of a request says: the table's identifier, and the kind of the request."""

    identifier: str
    kind: HookResource


def address_of(path: str) -> Address | None:
    """Return the table and the kind that a percent-encoded path of a catalog names. None if it is neither of the two
    kinds.

    The catalog chooses what stands before `v1/`, and the prefix after it.
    """
    match path.split("/"):
        case [*before, "namespaces", namespace, "tables", table, "metrics" | "notifications" as kind] if (
            "v1" in before and namespace and table
        ):
            return Address(identifier=identifier_of(unquote(namespace), unquote(table)), kind=HookResource(kind))
    return None


def hints_of(address: Address, catalog: str | None, body: bytes, *, whole: bool = True) -> tuple[Hint, ...]:
    """Return a hint for the table that has changed, and nothing for a report of a scan. Raises MalformedHookError.

    The beginning of a long report is enough, because its type comes first (`ReportMetricsRequestParser`).
    """
    named = Named(identifier=address.identifier, catalog=catalog)
    message = json_object(body, whole=whole)
    match address.kind:
        case HookResource.METRICS:
            report = message.get("report-type")
            if not isinstance(report, str):
                raise MalformedHookError("the body has no report-type, as metrics reports of Iceberg have")
            return (named,) if report == "commit-report" else ()
        case HookResource.NOTIFICATIONS:
            if not isinstance(message.get("notification-type"), str):
                raise MalformedHookError("the body has no notification-type, as notifications of Polaris have")
            payload = message.get("payload")
            metadata_file = payload.get("metadata-location") if isinstance(payload, dict) else None
            return (named, *_folder_of(metadata_file))
        case _:
            assert_never(address.kind)


def _folder_of(metadata_file: object) -> Iterator[Hint]:
    """Yield the folder of a table if its metadata lies in it. A table of a Hadoop catalog may be registered by its
    folder.
    """
    if not isinstance(metadata_file, str):
        return
    folder, _, _ = metadata_file.rpartition("/metadata/")
    try:
        yield At(location=spelled_location(folder))
    except PermanentError:  # then only the name in the path is known
        return


def _reader_of(path: str) -> HookReader | None:
    address = address_of(path)
    if address is None:
        return None
    return HookReader(
        sender=SENDERS[address.kind],
        read=lambda body, whole, catalog: hints_of(address, catalog, body, whole=whole),
    )


HOOK = CommitHook(
    senders=tuple(SENDERS.values()),
    about="Take a report or a notification for an Iceberg catalog. The path ends in\n"
    "`v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics` or `/notifications`.\n\n"
    "`catalog` is the name of the catalog in the configuration. Without it, every table of that name is meant.",
    reader_of=_reader_of,
    below="v1/namespaces/NAMESPACE/tables/TABLE/metrics",
)
