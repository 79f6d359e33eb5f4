"""A trial from outside: a directory of its own, the report, and an exit code that tells a violation from trouble."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import psutil
from rich.console import Console

from faults.victims import left_of
from lakewarden.demo.interruption import InterruptedDemoError, Interruption

WHOLE, VIOLATED, HARNESS_FAILED = 0, 1, 2
"""Exit codes. The last says nothing about Lakewarden: the harness, the writer or the machine is to blame."""


class Report(Protocol):
    """What a trial has to tell."""

    @property
    def violations(self) -> Sequence[str]:
        """What was found; empty is the proof."""
        ...

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        ...

    def tell(self, console: Console) -> None:
        """Print it for people."""
        ...


Play = Callable[[Path, Console, Interruption], Report]
"""A whole trial, in a directory of its own."""


def perform(seed: int, report: Path | None, play: Play) -> int:
    """Play in a directory of its own, which stays unless all was well; return the exit code.

    128 + the signal's number after Ctrl-C or SIGTERM. To be called in the main thread, for the signals.
    """
    console = Console(highlight=False)
    directory = Path(tempfile.mkdtemp(prefix="lakewarden-faults-"))
    console.print(f"seed {seed}, in {directory}", soft_wrap=True)
    code = HARNESS_FAILED
    try:
        with Interruption() as interruption:
            found = play(directory, console, interruption)
        for path in (directory / "report.json", *([report] if report else [])):
            found.write(path)
        found.tell(console)
        code = VIOLATED if found.violations else WHOLE
    except InterruptedDemoError as interrupted:
        console.print(f"ended by {interrupted}; nothing is left running")
        code = 128 + interrupted.signal
    except Exception as trouble:  # noqa: BLE001 - the edge: whatever failed here is the harness, and not a verdict
        (directory / "harness.txt").write_text(traceback.format_exc())
        console.print(
            f"the harness has failed, seed {seed}: {type(trouble).__name__}: {trouble}", markup=False, soft_wrap=True
        )
    _end_what_is_left(directory)
    if code in (VIOLATED, HARNESS_FAILED):
        console.print(f"seed {seed}; the table, the store, the records and the logs are in {directory}", soft_wrap=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return code


def _end_what_is_left(directory: Path) -> None:
    """Kill the processes that work in the directory: what is on trial may have failed to end its own."""
    for process in left_of(directory):
        with contextlib.suppress(psutil.Error):
            process.kill()
