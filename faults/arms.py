"""Faults told to running processes, and what they tell when they suffer one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from faults.deck import Strike
from lakewarden.executors import faultpoints, witness
from lakewarden.executors.faultpoints import Act
from lakewarden.planners.model.instant import Service

_TOLD = "told-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reached:
    """A run has reached the point that was asked for; `at` is the machine's monotonic time."""

    run: str
    service: Service
    at: float


class Arms:
    """The files between the harness and the processes: faults to be suffered, and the witness."""

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
        """What the processes need in their environment to be struck."""
        return {faultpoints.VARIABLE: str(self._faults), witness.VARIABLE: str(self.witness)}

    def arm(self, strike: Strike) -> None:
        """From now on, whoever passes the strike's point for its service suffers it, once."""
        self._told = None if strike.by_itself else self._directory / f"{_TOLD}{strike.number}"
        self._read = self.witness.stat().st_size
        self._tell([self._fault(strike, strike.service)])

    def widen(self, strike: Strike) -> None:
        """From now on, a run of any service will do."""
        self._tell([self._fault(strike, None)])

    def reached(self) -> Reached | None:
        """Return who has reached the point since it was armed, once it stands there, or has killed itself."""
        with self.witness.open("rb") as file:
            file.seek(self._read)
            lines = [json.loads(line) for line in file if line.endswith(b"\n")]
        found = next((line for line in lines if line["what"] == "fault"), None)
        if found is None or (self._told is not None and not self._told.exists()):
            return None
        return Reached(run=found["run"], service=Service(found["service"]), at=found["at"])

    def disarm(self) -> None:
        """Nobody suffers anything from now on. Who is held stays so."""
        self._tell([])

    def let_go(self) -> None:
        """Let who is held go on; to be called once more later, for who read the faults just before they were taken
        back comes to be held just after.
        """
        self._told = None
        for told in self._directory.glob(f"{_TOLD}*"):
            told.unlink(missing_ok=True)

    def _fault(self, strike: Strike, service: Service | None) -> dict[str, str | None]:
        act = Act.CRASH if strike.by_itself else Act.HOLD
        told = str(self._directory / f"{_TOLD}{strike.number}")
        return {"point": strike.point, "service": service, "act": act, "told": told}

    def _tell(self, faults: list[dict[str, str | None]]) -> None:
        half = self._faults.with_suffix(".half")
        half.write_text(json.dumps(faults))
        half.rename(self._faults)
