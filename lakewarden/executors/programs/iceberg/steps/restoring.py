"""Restores the names that a catalog has lost with the snapshots of an expiry. Their files are all still there."""

from __future__ import annotations

import json
import time
from typing import Any

import structlog

from lakewarden.executors.programs.iceberg.client.commit import moved
from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.iceberg.deletion.plans_beside import DeletionPlan
from lakewarden.planners.formats.iceberg.deletion.refs import LostRefs, kind_of, lost_refs
from lakewarden.planners.formats.iceberg.metadata.metadata import Ref, waits
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.instant import Step

log = structlog.get_logger(__name__)


class UnknownNamesError(LakewardenError):
    """It is not known whether names were lost, so the files of the expired snapshots must stay."""


def restore_lost_refs(table: OpenTable, plan: DeletionPlan) -> tuple[Ref, ...]:
    """Restore the names that were lost with the snapshots of a plan, and these snapshots. Return the names.

    Raises UnknownNamesError if the log of the metadata does not tell. Raises PermanentError or TemporaryError if the
    catalog refuses to restore a name.
    """
    seen = dict[str, Ref]()
    refused: LakewardenError | None = None
    for wait in waits(dict(table.java.properties())):
        time.sleep(wait)
        if (lost := _lost(table, plan)) is None:
            return tuple(seen.values())
        seen |= {ref.name: ref for ref in lost.refs}
        try:
            if _restored(table, lost):
                log.warning("names_restored", names=[kind_of(ref) for ref in lost.refs], version=lost.before)
        except LakewardenError as error:  # the next look shows what has happened
            refused = error
    if (lost := _lost(table, plan)) is None:
        return tuple(seen.values())
    raise _still_lost(lost, refused)


def _lost(table: OpenTable, plan: DeletionPlan) -> LostRefs | None:
    """Return the names that are lost now; None if there are none. Raises UnknownNamesError."""
    metadata = table.metadata()
    gone = frozenset(plan.snapshots) - metadata.by_id.keys()
    if not gone or not metadata.metadata_log:
        return None
    lost = lost_refs(gone, plan.refs, metadata, table.storage)
    if lost.before is None:
        raise UnknownNamesError(f"no earlier version of the table that its log names has snapshot {min(gone)}")
    return lost if lost.refs else None


def _restored(table: OpenTable, lost: LostRefs) -> bool:
    """Add the snapshots again, under their ids and with the same files, and then the names. Return False if the pointer
    or a name has moved.

    A snapshot gets the next sequence number and the present time, because a catalog adds no older one. Its files keep
    their sequence numbers, which its manifest list names.
    """
    with translated(Step.EXECUTE):
        iceberg = table.jvm.org.apache.iceberg
        earlier = iceberg.TableMetadataParser.read(table.java.io(), lost.before)
        base = table.java.operations().refresh()
        builder = iceberg.TableMetadata.buildFrom(base)
        sequence, added = int(base.nextSequenceNumber()), set[int]()
        for ref in lost.refs:
            if ref.snapshot not in added and base.snapshot(ref.snapshot) is None:
                builder = builder.addSnapshot(_made_again(iceberg, earlier, ref.snapshot, base, sequence + len(added)))
                added.add(ref.snapshot)
            builder = builder.setRef(ref.name, earlier.ref(ref.name))
        updated = builder.build()
    return moved(table, base, updated)


def _made_again(iceberg: Any, earlier: Any, snapshot: int, base: Any, sequence: int) -> Any:
    document = json.loads(str(iceberg.SnapshotParser.toJson(earlier.snapshot(snapshot))))
    document["timestamp-ms"] = max(int(time.time() * 1000), int(base.lastUpdatedMillis()))
    if int(base.formatVersion()) > 1:
        document["sequence-number"] = sequence
    if "first-row-id" in document:  # the manifest list has the numbers of the rows
        document |= {"first-row-id": int(base.nextRowId()), "added-rows": 0}
    return iceberg.SnapshotParser.fromJson(json.dumps(document))


def _still_lost(lost: LostRefs, refused: LakewardenError | None) -> LakewardenError:
    names = ", ".join(f"{kind_of(ref)} of snapshot {ref.snapshot}" for ref in lost.refs)
    sentence = (
        f"{names} was made while its snapshot expired, and the catalog has removed it. {lost.before} has it. No file "
        "was deleted"
    )
    if isinstance(refused, PermanentError):
        return PermanentError(f"{sentence}. The catalog refuses to restore it: {refused}")
    return TemporaryError(f"{sentence}. The next run restores it: {refused or 'the table moved on at each attempt'}")
