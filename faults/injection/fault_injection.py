"""Faults that the harness injects into running processes, and the reports of the processes that reach them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from faults.injection.schedule import ScheduledFault
from lakewarden.planners.model.instant import Service
from tests.support.doubles import fault_points, witness
from tests.support.doubles.fault_points import FaultEffect

_TOLD = "told-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reached:
    """A run has reached the fault point. `at` is the machine's monotonic time."""

    run: str
    service: Service
    at: float


class FaultInjection:
    """The files between the harness and the processes: the injected faults, and the witness file."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.witness = directory / "witness.jsonl"
        self._faults = directory / "faults.json"
        self._directory = directory
        self._told: Path | None = None
        self._read = 0
        self.witness.touch()

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables of processes that are to suffer faults."""
        return {fault_points.VARIABLE: str(self._faults), witness.VARIABLE: str(self.witness)}

    def inject(self, fault: ScheduledFault) -> None:
        """From now on, the next run of the fault's service that passes its point suffers the fault, once."""
        self._told = None if fault.by_itself else self._directory / f"{_TOLD}{fault.number}"
        self._read = self.witness.stat().st_size
        self._tell([self._fault(fault, fault.service)])

    def widen(self, fault: ScheduledFault) -> None:
        """From now on, a run of any service suffers the fault."""
        self._tell([self._fault(fault, None)])

    def reached(self) -> Reached | None:
        """Return the run that has reached the point since the injection. It is held there, or it has killed itself."""
        with self.witness.open("rb") as file:
            file.seek(self._read)
            lines = [json.loads(line) for line in file if line.endswith(b"\n")]
        found = next((line for line in lines if line["what"] == "fault"), None)
        if found is None or (self._told is not None and not self._told.exists()):
            return None
        return Reached(run=found["run"], service=Service(found["service"]), at=found["at"])

    def withdraw(self) -> None:
        """From now on, no run suffers a fault. A run that is held stays held."""
        self._tell([])

    def let_go(self) -> None:
        """Let the held run continue. Call this once more later: a run that read the faults just before they were
        withdrawn is held only just after this call.
        """
        self._told = None
        for told in self._directory.glob(f"{_TOLD}*"):
            told.unlink(missing_ok=True)

    def _fault(self, fault: ScheduledFault, service: Service | None) -> dict[str, str | None]:
        act = FaultEffect.CRASH if fault.by_itself else FaultEffect.HOLD
        told = str(self._directory / f"{_TOLD}{fault.number}")
        return {"point": fault.point, "service": service, "act": act, "told": told}

    def _tell(self, faults: list[dict[str, str | None]]) -> None:
        half = self._faults.with_suffix(".half")
        half.write_text(json.dumps(faults))
        half.rename(self._faults)
