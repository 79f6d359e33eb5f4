"""A trial from outside: a directory of its own, the report, and an exit code that tells a violation from an error of
the harness.
"""

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

from faults.injection.victims import left_of
from lakewarden.demo.interruption import InterruptedDemoError, Interruption

WHOLE, VIOLATED, HARNESS_FAILED = 0, 1, 2
"""Exit codes. The last one says nothing about Lakewarden: the harness, the writer or the machine has failed."""


class Report(Protocol):
    """The report of a trial."""

    @property
    def violations(self) -> Sequence[str]:
        """The findings. Empty is the proof."""
        ...

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        ...

    def tell(self, console: Console) -> None:
        """Print it for people."""
        ...


Trial = Callable[[Path, Console, Interruption], Report]
"""A whole trial, in a directory of its own."""


def run_trial(seed: int, report: Path | None, trial: Trial) -> int:
    """Run a trial in a directory of its own and return the exit code. The directory stays unless the trial found
    nothing.

    128 + the signal's number after Ctrl-C or SIGTERM. Must be called in the main thread, for the signals.
    """
    console = Console(highlight=False)
    directory = Path(tempfile.mkdtemp(prefix="lakewarden-faults-"))
    console.print(f"seed {seed}, in {directory}", soft_wrap=True)
    code = HARNESS_FAILED
    try:
        with Interruption() as interruption:
            found = trial(directory, console, interruption)
        for path in (directory / "report.json", *([report] if report else [])):
            found.write(path)
        found.tell(console)
        code = VIOLATED if found.violations else WHOLE
    except InterruptedDemoError as interrupted:
        console.print(f"ended by {interrupted}; nothing is left running")
        code = 128 + interrupted.signal
    except Exception as error:  # noqa: BLE001 - the edge: whatever failed here is the harness, and not a verdict
        (directory / "harness.txt").write_text(traceback.format_exc())
        console.print(
            f"the harness has failed, seed {seed}: {type(error).__name__}: {error}", markup=False, soft_wrap=True
        )
    _end_what_is_left(directory)
    if code in (VIOLATED, HARNESS_FAILED):
        console.print(f"seed {seed}; the table, the store, the records and the logs are in {directory}", soft_wrap=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return code


def _end_what_is_left(directory: Path) -> None:
    """Kill the processes that still work in the directory, for the code under test may have failed to end them."""
    for process in left_of(directory):
        with contextlib.suppress(psutil.Error):
            process.kill()
