"""What one check has found, and checks that end in time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class CheckResult(StrEnum):
    """The result of a check."""

    OK = "ok"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckFinding:
    """A line of the result: what was checked, what was found, and the remedy if it failed."""

    check: str
    health: CheckResult
    found: str
    remedy: str | None = None


def ok(check: str, found: str) -> CheckFinding:
    """Return what works."""
    return CheckFinding(check=check, health=CheckResult.OK, found=found)


def failed(check: str, found: str, remedy: str) -> CheckFinding:
    """Return what does not work."""
    return CheckFinding(check=check, health=CheckResult.FAILED, found=found, remedy=remedy)


def not_checked(check: str, why: str, remedy: str | None = None) -> CheckFinding:
    """Return what cannot be said from here."""
    return CheckFinding(check=check, health=CheckResult.NOT_CHECKED, found=why, remedy=remedy)


def in_time(check: str, ask: Callable[[], CheckFinding], *, seconds: float, remedy: str) -> CheckFinding:
    """Return what a check finds. It has failed if it has no answer in time, or raises an error that has a message."""
    answers: list[CheckFinding] = []

    def asked() -> None:
        try:
            answers.append(ask())
        except Exception as error:  # noqa: BLE001 - the edge of a check: what a library raises is a finding
            answers.append(failed(check, str(error) or type(error).__name__, remedy))

    thread = threading.Thread(target=asked, daemon=True, name=f"doctor {check}")  # a call that hangs ends with us
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else failed(check, f"there is no answer within {seconds:g}s", remedy)


def at_once(checks: Sequence[Callable[[], CheckFinding]], *, most: int = 8) -> list[CheckFinding]:
    """Return what checks find, in their order. Several of them wait at the same time."""
    found: dict[int, CheckFinding] = {}
    waiting = iter(enumerate(checks))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                following = next(waiting, None)
            if following is None:
                return
            number, check = following
            found[number] = check()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(most, len(checks)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[number] for number in sorted(found)]
