"""Writers that die in the midst of a commit, one after another, so that there is something to roll back."""

from __future__ import annotations

import signal

from lakewarden.executors.demo.hudi_options import TableType
from lakewarden.planners.model.instant import Service
from lakewarden.service.demo.process import Child
from lakewarden.service.demo.scene import Scene
from lakewarden.service.demo.stage import Stage
from live.tally import tallies


class Casualties:
    """Sends the next one as soon as the last one is dead and rolled back, `wanted` in all."""

    def __init__(self, stage: Stage, kind: TableType, *, wanted: int) -> None:
        self._stage = stage
        self._kind = kind
        self._wanted = wanted
        self._sent: list[Child] = []

    def look(self, scene: Scene) -> None:
        """Send the next one, if it is time for it."""
        done = tallies(scene.runs).get(Service.ROLLBACK)
        rolled_back = 0 if done is None else done.succeeded
        all_dead = all(child.exit_code is not None for child in self._sent)
        if all_dead and len(self._sent) < self._wanted and rolled_back >= len(self._sent):
            arguments = ("--table-type", self._kind)
            self._sent.append(self._stage.start_casualty(len(self._sent) + 1, arguments=arguments))

    def survivors(self) -> list[str]:
        """Return a sentence for each that ended in another way than it should."""
        ended = ((child.name, child.exit_code) for child in self._sent)
        return [f"{name} ended with {code}" for name, code in ended if code not in (None, -signal.SIGKILL)]
