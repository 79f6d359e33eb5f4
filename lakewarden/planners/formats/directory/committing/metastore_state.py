"""What the metastore of a directory says, or why partition commit is Blocked by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.metastore.listed import MetastoreLook
from lakewarden.planners.formats.directory.metastore.looking import looked
from lakewarden.planners.formats.directory.options.metastore_options import MetastoreOptions
from lakewarden.planners.formats.directory.options.service_options import CommitAct, PartitionCommitOptions
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Blocker


@dataclass(frozen=True, kw_only=True, slots=True)
class MetastoreState:
    """What a metastore lists, or why that is not known. Neither if no metastore is to be asked. `kept` is what the next
    look may rely on.
    """

    look: MetastoreLook | None = None
    blocker: Blocker | None = None
    kept: MetastoreLook | None = None


def metastore_state(
    location: str,
    metastore: MetastoreOptions | None,
    commit: PartitionCommitOptions,
    folders: Mapping[str, Folder],
    known: MetastoreLook | None,
) -> MetastoreState:
    """Ask the metastore, if the policy needs it. A metastore that does not answer stops no other service."""
    if metastore is None or CommitAct.METASTORE not in commit.policy.acts:
        return MetastoreState()
    try:
        look = looked(metastore, location, folders, known)
    except TemporaryError as away:
        return MetastoreState(
            kept=known, blocker=_blocker("metastore_away", str(away), "start the metastore, or set options.metastore")
        )
    except PermanentError as wrong:
        remedy = "set options.metastore to the table of the directory"
        return MetastoreState(blocker=_blocker("settings_refused", str(wrong), remedy))
    return MetastoreState(look=look, kept=look)


def _blocker(code: str, reason: str, remedy: str) -> Blocker:
    return Blocker(code=code, reason=reason, remedy=remedy, services=frozenset({Service.PARTITION_COMMIT}))
