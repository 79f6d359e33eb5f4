"""Manifests of the archived timeline that were not written to their end. With one of them, Hudi fails each archive.

Hudi writes `manifest_<n>.<uuid>` and renames it to `manifest_<n>`. A process that is killed between leaves the first
name. At the end of each archive Hudi reads a number from every name that begins with `manifest_`. Then a
NumberFormatException ends the run, after its work was done (`LSMTimeline.allSnapshotVersions` of 1.2.0).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import structlog

from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.formats.hudi.metadata.table_properties import HOME, read_table_properties
from lakewarden.planners.model.errors import PermanentError

log = structlog.get_logger(__name__)

_HALF = re.compile(r"manifest_\d+\.[0-9a-f-]{36}", re.ASCII)
_READ_BY_HUDI = re.compile(r"manifest_\d{1,9}(?:_.*)?", re.ASCII)


def refuse_unknown_manifests(table: OpenTable) -> None:
    """Raise PermanentError if Hudi's archive would fail by a name that Hudi has not written."""
    for folder, name in _unreadable(table):
        if _HALF.fullmatch(name) is None:
            raise PermanentError(
                f"{folder}/{name} is no manifest of the archived timeline, and Hudi's archive fails by its name: move "
                "it out of this folder"
            )


def remove_half_manifests(table: OpenTable) -> None:
    """Remove manifests that were not written to their end. Call it under the table's lock, without another archive."""
    storage = table.client.storage
    for folder, name in _unreadable(table):
        if _HALF.fullmatch(name) is not None:
            storage.deleteFile(table.client.path(f"{folder}/{name}"))
            log.warning("half_manifest_removed", location=table.assignment.location, file=f"{folder}/{name}")


def _unreadable(table: OpenTable) -> Iterator[tuple[str, str]]:
    """Yield each folder and name in it that Hudi takes for a manifest and cannot read. Both the archive of the table
    and that of its metadata table are looked at.
    """
    properties = [table.properties()]
    if properties[0].has_metadata_table:
        with contextlib.suppress(PermanentError):  # it is not made yet
            properties.append(read_table_properties(f"{table.assignment.location}/{HOME}/metadata", table.storage))
    for one in properties:
        if one.layout is Layout.V1 or not one.history:
            continue
        folder = f"{one.timeline_folder}/{one.history}"
        try:
            listed = table.storage.listing(folder)
        except FileNotFoundError:
            continue
        for entry in listed:
            if entry.name.startswith("manifest_") and _READ_BY_HUDI.fullmatch(entry.name) is None:
                yield folder, entry.name
