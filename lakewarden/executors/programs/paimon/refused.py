"""A service that is not run on Paimon tables. No run of it is planned, because each decision on it is Blocked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from lakewarden.executors.contract import Assignment, Steps
from lakewarden.planners.formats.paimon.backlog.refused import REFUSED
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Storage


class RefusedService:
    """The program of such a service: fulfils `contract.Program`."""

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Raise PermanentError, with the reason and the remedy."""
        blocker = REFUSED[assignment.service]
        raise PermanentError(f"{blocker.reason}: {blocker.remedy}")
        yield
