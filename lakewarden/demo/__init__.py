"""`lakewarden demo`: a live table kept healthy before your eyes, and the proof that every row is right."""

from __future__ import annotations

from pathlib import Path


def run(format_: str, seconds: int, report: Path | None) -> int:
    """Play the demo of a format, with the writer writing for `seconds` from its first commit, and return the exit code.

    0: every row is right, no commit of the writer and no query of the reader failed, and each service that the
    piece promises succeeded. 1: not so, or the demo could not be played to its end. 128 + the signal's number after
    Ctrl-C or SIGTERM. No process is left behind in any case. To be called in the main thread, for the signals.
    """
    from lakewarden.demo.registry import demo_of  # noqa: PLC0415
    from lakewarden.demo.scenario import play  # noqa: PLC0415 - the demo's parts are imported without its plot

    return play(demo_of(format_), seconds, report)
