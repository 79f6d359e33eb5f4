"""The program of each table service for Paimon's tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from lakewarden.executors.contract import Assignment, FormatPrograms, Steps
from lakewarden.executors.programs.bracket import Bracket
from lakewarden.executors.programs.paimon.archive import Archive
from lakewarden.executors.programs.paimon.clean import Clean
from lakewarden.executors.programs.paimon.compaction import Compaction
from lakewarden.executors.programs.paimon.orphans import Orphans
from lakewarden.executors.programs.paimon.partition_commit import PartitionCommit
from lakewarden.executors.programs.paimon.ttl import Ttl
from lakewarden.planners.formats.paimon.backlog.needs import REFUSED
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.ports import Storage

# A service that is not run on Paimon tables. No run of it is planned, because each decision on it is Blocked.


@contextlib.contextmanager
def _refused(_session: Any, assignment: Assignment, _storage: Storage, _clock: Clock) -> Iterator[Steps]:
    """Raise PermanentError, with the reason and the remedy."""
    blocker = REFUSED[assignment.service]
    raise PermanentError(f"{blocker.reason}: {blocker.remedy}")
    yield


PAIMON = FormatPrograms(
    programs={
        Service.ARCHIVE: Archive,
        Service.CLEAN: Clean,
        Service.CLUSTERING: partial(Bracket, opened=_refused),
        Service.COMPACTION: Compaction,
        Service.ORPHANS: Orphans,
        Service.PARTITION_COMMIT: PartitionCommit,
        Service.TTL: Ttl,
    }
)
