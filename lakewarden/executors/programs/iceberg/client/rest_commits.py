"""The commit of an expiry to a REST catalog, on condition that every branch and tag stands where it was looked at.

Catalogs of databases, folders and metastores exchange the pointer of a table on condition of its value. A REST catalog
applies changes to the table as it is by then, if the requirements of the request hold. Iceberg's client sends such
requirements only with changes that add something. With `RemoveSnapshots` it requires the uuid of the table and nothing
else (`UpdateRequirements`, 1.11.0). Then a rollback of main to a snapshot that expires at the same moment would end
with a table without main.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakewarden.executors.programs.iceberg.client.opened import OpenTable

_REST = "org.apache.iceberg.rest.RESTTableOperations"
_ANSWER = "org.apache.iceberg.rest.responses.LoadTableResponse"


def applies_changes(table: OpenTable) -> bool:
    """Whether the catalog applies changes to the table as it is by then. Every other catalog exchanges a pointer."""
    return str(table.java.operations().getClass().getName()) == _REST


def commit_of(table: OpenTable, base: Any, updated: Any) -> Callable[[], None]:
    """Return the commit of `updated`, which was built from `base`. Nothing is sent before it is called. It raises
    `CommitFailedException` if a branch or a tag of `base` has moved, or if the pointer has.
    """
    operations = table.java.operations()
    if not applies_changes(table):
        return lambda: operations.commit(base, updated)
    iceberg = table.jvm.org.apache.iceberg
    requirements = table.jvm.java.util.ArrayList(iceberg.UpdateRequirements.forUpdateTable(base, updated.changes()))
    for name, ref in dict(base.refs()).items():
        requirements.add(iceberg.UpdateRequirement.AssertRefSnapshotID(name, ref.snapshotId()))
    request = iceberg.rest.requests.UpdateTableRequest(requirements, updated.changes())
    answer = table.jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_ANSWER)
    handler = iceberg.rest.ErrorHandlers.tableCommitHandler()
    client, path = _private(operations, "client"), _private(operations, "path")
    headers = _private(operations, "mutationHeaders").get()
    return lambda: client.post(path, request, answer, headers, handler)


def _private(operations: Any, name: str) -> Any:
    """Return the value of a field. The version of the bundle is pinned (`executors/worker/spark_versions.py`)."""
    field = operations.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(operations)
