"""The requests that writers send after a commit: metrics reports of Iceberg.

Writers with a REST catalog post a report of each commit and of each scan to `.../tables/{table}/metrics`
(`RESTMetricsReporter`; `ReportMetricsRequest` of the REST specification). The path names the table. A mirror of these
requests is a hook.
"""

from __future__ import annotations

from urllib.parse import unquote

from lakewarden.planners.hooks import (
    CommitHook,
    Hint,
    HookReader,
    MalformedHookError,
    Named,
    identifier_of,
    json_object,
)

SENDER = "iceberg"
"""The label of the sender in the metrics."""


def table_of(path: str) -> str | None:
    """Return the identifier of the table that a percent-encoded path of a catalog names. None if it is no path of
    reports.

    The catalog chooses what stands before `v1/`, and the prefix after it.
    """
    match path.split("/"):
        case [*before, "namespaces", namespace, "tables", table, "metrics"] if "v1" in before and namespace and table:
            return identifier_of(unquote(namespace), unquote(table))
    return None


def hints_of(table: str, catalog: str | None, body: bytes, *, whole: bool = True) -> tuple[Hint, ...]:
    """Return a hint for the table if it has changed, and nothing for a report of a scan. Raises MalformedHookError.

    The beginning of a long report is enough, because its type comes first (`ReportMetricsRequestParser`).
    """
    report = json_object(body, whole=whole).get("report-type")
    if not isinstance(report, str):
        raise MalformedHookError("the body has no report-type, as metrics reports of Iceberg have")
    return (Named(identifier=table, catalog=catalog),) if report == "commit-report" else ()


def _reader_of(path: str) -> HookReader | None:
    table = table_of(path)
    if table is None:
        return None
    return HookReader(sender=SENDER, read=lambda body, whole, catalog: hints_of(table, catalog, body, whole=whole))


HOOK = CommitHook(
    senders=(SENDER,),
    about="Take a report for an Iceberg catalog. The path ends in\n"
    "`v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics`.\n\n"
    "`catalog` is the name of the catalog in the configuration. Without it, every table of that name is meant.",
    reader_of=_reader_of,
    below="v1/namespaces/NAMESPACE/tables/TABLE/metrics",
)
