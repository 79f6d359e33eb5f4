"""The parts that take a table from due to a run that has ended, as one group."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.service.scheduling.permit_context import PermitContexts
from lakewarden.service.scheduling.permit_queue import PermitQueue
from lakewarden.service.scheduling.poller import Poller
from lakewarden.service.scheduling.run_manager import RunManager
from lakewarden.service.scheduling.run_requests import Requests
from lakewarden.service.scheduling.table_proofs import TableProofs


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulingParts:
    """The parts that observe and judge tables, request runs, judge their permits, and manage them."""

    table_proofs: TableProofs
    requests: Requests
    permit_contexts: PermitContexts
    permit_queue: PermitQueue
    runs: RunManager
    poller: Poller
