"""The operator of the proof: has a directory, the commands of the documentation, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from lakewarden.client import Client
from lakewarden.demo.daemon import Child, environment
from lakewarden.planners.model.errors import PermanentError

_CLI = (sys.executable, "-m", "lakewarden.cli")
_TIMEOUT_SECONDS = 600
_GRACE = timedelta(seconds=90)


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command that was given, how long it took, and its exit code."""

    said: str
    seconds: float
    code: int


@dataclass
class Operator:
    """Gives commands in a directory, and keeps each of them."""

    directory: Path
    port: int
    commands: list[Command] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._url = f"http://127.0.0.1:{self.port}"
        self.client = Client(self._url)
        """The client of the documentation, for questions about many tables."""

    def run(self, *arguments: str, codes: Sequence[int] = (0,), kept: bool = True) -> str:
        """Run a command, and return what it printed. Raises PermanentError if it ends with another exit code."""
        begun = time.monotonic()
        variables = {**environment(), "LAKEWARDEN_URL": self._url}
        told = subprocess.run(
            [*_CLI, *arguments],
            cwd=self.directory,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_SECONDS,
        )
        said = "lakewarden " + " ".join(arguments)
        if kept:
            took = round(time.monotonic() - begun, 1)
            self.commands.append(Command(said=said, seconds=took, code=told.returncode))
        if told.returncode not in codes:
            raise PermanentError(f"{said} ended with {told.returncode}: {told.stdout[-500:]}{told.stderr[-1500:]}")
        return told.stdout

    def asked(self, *arguments: str) -> Any:
        """Return what a command prints as JSON."""
        return json.loads(self.run(*arguments, "--json", kept=False))

    def serve(self) -> Child:
        """Start the daemon. To be ended by `stop`."""
        self.commands.append(Command(said="lakewarden serve", seconds=0, code=0))
        return Child("daemon", [*_CLI, "serve"], log=self.directory / "serve.log")


def stop(child: Child) -> None:
    """End a process in good order."""
    child.end(grace=_GRACE)
