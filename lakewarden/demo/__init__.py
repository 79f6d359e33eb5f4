"""`lakewarden demo`: Lakewarden services a live table while you watch, and proves at the end that every row is
right.
"""

from __future__ import annotations

from pathlib import Path


def run(format_: str, seconds: int, report: Path | None) -> int:
    """Run the demo of a format and return the exit code. The writer writes for `seconds` from its first commit.

    0: every row is right, no commit of the writer and no query of the reader failed, and each service that the demo
    promises succeeded. 1: one of these is false, or the demo did not reach its end. 128 + the signal's number after
    Ctrl-C or SIGTERM. No process is left behind in any case. Must be called in the main thread, for the signals.
    """
    from lakewarden.demo.registry import demo_of  # noqa: PLC0415
    from lakewarden.demo.scenario import run  # noqa: PLC0415 - the demo's parts are imported without its plot

    return run(demo_of(format_), seconds, report)
