"""A session worker without Spark, which is up at once: its JVM is a process that does nothing."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from lakewarden.executors.contract import StagesDone
from lakewarden.executors.identity import ProcessIdentity
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.storage.settings import StoreSettings

COMMAND = (sys.executable, str(Path(__file__)))


class NoStages:
    """The stages of a run without Spark: there are none."""

    def done(self, *, at_the_end: bool = False) -> StagesDone:
        return StagesDone()


class LightSession:
    """What a worker asks of its session, for programs that need none."""

    versions: Mapping[str, str] = {}
    application: str | None = None
    file_names = os.environ.get("LIGHT_WORKER_FILE_NAMES", "UTF-8")

    def __init__(
        self, profile: SparkProfile, storage: Sequence[StoreSettings] = (), needs: Collection[str] = ()
    ) -> None:
        self._jvm = subprocess.Popen(["sleep", "3600"])
        self.jvm_pid = self._jvm.pid
        identity = ProcessIdentity.of(self.jvm_pid)
        self.executor = identity.to_text() if identity else None

    def ping(self) -> None:
        """Raise ConnectionRefusedError, as py4j does, where the process is gone."""
        if self._jvm.poll() is not None:
            raise ConnectionRefusedError("the JVM is gone")

    def misses_executors(self) -> bool:
        return os.environ.get("LIGHT_WORKER_MISSES_EXECUTORS") == "1"

    def live_until(self, moment: float) -> None:
        """Leave it to the worker."""

    @contextlib.contextmanager
    def for_run(self, run: RunId, conf: Mapping[str, str]) -> Iterator[None]:
        yield None

    def progress(self, run: RunId) -> None:
        """Return nothing that changes: there are no jobs."""

    def stages(self, run: RunId) -> NoStages:
        return NoStages()

    def cancel_jobs(self, run: RunId) -> None:
        """There are none."""

    def stop(self) -> None:
        """End in good order."""
        self._jvm.terminate()


if __name__ == "__main__":
    from lakewarden.executors.worker import main
    from tests.support.doubles.fake.programs import FAKE_PROGRAMS

    vars(main)["Session"] = LightSession
    main.main(int(sys.argv[1]), programs={"fake": FAKE_PROGRAMS})
