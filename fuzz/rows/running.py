"""Runs a program on a table: act after act, and after each of them every reader must find what the oracle says."""

from __future__ import annotations

import contextlib
import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from fuzz.rows.contract import FuzzedTable, Look, NotNow, RowsFormat, SeesHeldRuns, UnreadableError
from fuzz.rows.held import HeldRun, Keeper
from fuzz.rows.program import Act, Program
from lakewarden.executors.contract import Failed, NothingToDo, Outcome, Succeeded, Yielded
from lakewarden.executors.points import Point
from lakewarden.executors.worker.session import Session
from lakewarden.planners.model.decision import DoesNotApply, Due
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service, Step

OURS = frozenset({"run", "begin", "go on", "end"})
"""The acts that are ours in every format.

- `run` {service, options, until?}: a run. `until` is the step that it is refused, as an approval that never comes: its
  plan is left. The next run of the service takes it up.
- `begin` {service, options, point?}: the same, held at each of its questions, or only where it first passes a `point`
  (`executors/points.py`). `go on` lets it take one step. `end` lets it take all that are left. Writers act in between.
"""

JAVA = re.compile(r"[A-Z]\w*(Exception|Error)\b")
"""How a reason begins that nobody explains."""
_NUMBERS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{20,}\S*|[0-9]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What went wrong after so many acts. A program that is shrunk must show the same `kind`."""

    kind: str
    what: str
    acts: int

    def is_like(self, other: Fault | None) -> bool:
        """Whether another fault is of the same kind."""
        return other is not None and other.kind == self.kind


@dataclass(kw_only=True)
class Tally:
    """What happened in all programs."""

    programs: int = 0
    seconds: list[float] = field(default_factory=list)
    slowest: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    acts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    reasons: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    unread: Counter[str] = field(default_factory=Counter)

    def add(self, act: str, ended: str, reason: str = "") -> None:
        """Count how an act ended."""
        self.acts[act][ended] += 1
        if reason:
            self.reasons[f"{act} {ended}"][_NUMBERS.sub("#", reason)[:150]] += 1

    def never_succeeded(self, services: frozenset[str]) -> list[str]:
        """Return the services without a single success: holes in the generator."""
        return sorted(one for one in services if not self.acts[one]["succeeded"])

    def told(self) -> str:
        """Return the tally for people."""
        steps = statistics.median(self.seconds) if self.seconds else 0
        lines = [f"{self.programs} programs, {len(self.seconds)} acts, {steps:.2f} s in the median of an act"]
        for act, ends in sorted(self.acts.items()):
            counts = ", ".join(f"{count} {end}" for end, count in ends.most_common())
            lines.append(f"  {act:<24} {statistics.median(self.slowest[act] or [0]):5.2f} s  {counts}")
        for act, reasons in sorted(self.reasons.items()):
            lines += [f"    {act}: {count}x {reason}" for reason, count in reasons.most_common(4)]
        lines += [f"  not read: {count}x {why}" for why, count in self.unread.most_common()]
        return "\n".join(lines)


class Found(Exception):  # noqa: N818 - it leaves a program
    """A fault was found."""

    def __init__(self, kind: str, what: str) -> None:
        super().__init__(what)
        self.kind = kind


def run_program(
    program: Program, format_: RowsFormat, folder: Path, session: Session, tally: Tally, *, until: float = inf
) -> Fault | None:
    """Run a program on a new table below an empty folder. Return the first fault. No act is begun after `until` (of
    `time.monotonic`).
    """
    with session_of_its_own(session) as spark:
        table = format_.make(program.kind, folder, spark)
        trial = _Trial(table, Keeper(format_.name, table, session), tally)
        tally.programs += 1
        done = 0
        try:
            for act in (*program.acts, Act("end")):
                if time.monotonic() > until:
                    break
                done += 1
                trial.step(act)
        except Found as found:
            return Fault(kind=found.kind, what=str(found), acts=done)
        finally:
            trial.close()
    return None


@contextlib.contextmanager
def session_of_its_own(session: Session) -> Any:
    """Lend a new SparkSession to the writers of a program."""
    spark = session._root.newSession()  # noqa: SLF001 - as the tests' writers do
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    active = jvm.org.apache.spark.sql.SparkSession
    active.setActiveSession(spark._jsparkSession)  # noqa: SLF001
    try:
        yield spark
    finally:
        active.clearActiveSession()


class _Trial:
    def __init__(self, table: FuzzedTable, keeper: Keeper, tally: Tally) -> None:
        self._table, self._keeper, self._tally = table, keeper, tally
        self._held: HeldRun | None = None

    def step(self, act: Act) -> None:
        """Do an act, and look at the table with all readers. Raises Found."""
        began = time.monotonic()
        ours: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "run": self._run,
            "begin": self._begin,
            "go on": lambda _: self._go_on(once=True),
            "end": lambda _: self._go_on(once=False),
        }
        if act.name in ours:
            ours[act.name](act.given)
        else:
            self._write(act)
        for look in self._table.looks():
            self._look(look)
        took = time.monotonic() - began
        self._tally.seconds.append(took)
        self._tally.slowest[act.given.get("service", act.name) if act.name in OURS else act.name].append(took)

    def close(self) -> None:
        """Refuse what is still held."""
        if self._held is not None:
            self._held.go_on("the program has ended")

    def _write(self, act: Act) -> None:
        try:
            self._table.do(act)
        except NotNow as why:
            self._tally.add(act.name, "not now", str(why))
        except Exception as error:
            raise Found(f"writer {act.name}", f"{act.name} failed: {_first(error)}") from error
        else:
            self._tally.add(act.name, "succeeded")

    def _begin(self, given: Mapping[str, Any]) -> None:
        if self._held is not None:
            return
        service = Service(given["service"])
        point = Point(given["point"]) if "point" in given else None
        begun = self._started(service, given.get("options", {}), point=point)
        if begun is not None:
            self._held = begun
            self._go_on(once=True)
            while point is not None and self._held is begun and not begun.stands:
                self._go_on(once=True)
            self._tell(is_held=self._held is not None)

    def _tell(self, *, is_held: bool) -> None:
        if isinstance(self._table, SeesHeldRuns):
            self._table.held(is_held=is_held)

    def _run(self, given: Mapping[str, Any]) -> None:
        """One run of a table at a time is enough here. Another one would wait, too."""
        self._go_on(once=False)
        run = self._started(Service(given["service"]), given.get("options", {}))
        if run is None:
            return
        until = Step(given["until"]) if given.get("until") else None
        while run.step is not None:
            run.go_on("not now" if run.step is until else None)
        self._ended(run, left=until is not None)

    def _started(self, service: Service, options: Mapping[str, Any], *, point: Point | None = None) -> HeldRun | None:
        try:
            decision = self._keeper.decide(service, options)
        except (TemporaryError, PermanentError) as error:
            self._tally.add(service, "refused", f"not observed: {error}")
            return None
        if not isinstance(decision, Due):
            ended = "does not apply" if isinstance(decision, DoesNotApply) else type(decision).__name__
            self._tally.add(service, ended, decision.reason)
            return None
        return self._keeper.begin(service, options, decision, point=point)

    def _go_on(self, *, once: bool) -> None:
        run = self._held
        while run is not None and run.step is not None:
            run.go_on()
            if once:
                break
        if run is not None and run.step is None:
            self._held = None
            self._tell(is_held=False)
            self._ended(run, left=False)

    def _ended(self, run: HeldRun, *, left: bool) -> None:
        service, outcome = run.service, run.outcome
        assert outcome is not None
        self._tally.add(service, _word(outcome, left=left), getattr(outcome, "reason", ""))
        if isinstance(outcome, Failed) and JAVA.match(outcome.reason):
            raise Found(f"unexplained {service}", f"{service} failed in {outcome.step}: {outcome.reason}")

    def _look(self, look: Look) -> None:
        try:
            found = look.find()
        except UnreadableError as why:
            self._tally.unread[f"{look.by}: {_NUMBERS.sub('#', str(why))[:200]}"] += 1
            return
        except Exception as error:
            raise Found(f"reader {look.by}", f"{look.by} failed: {_first(error)}") from error
        if found != look.expected:
            missing, more = look.expected - found, found - look.expected
            raise Found(
                f"rows by {look.by}",
                f"{look.by} misses {sorted(missing.elements(), key=str)[:12]} and finds "
                f"{sorted(more.elements(), key=str)[:12]} of {look.expected.total()} rows",
            )


def _word(outcome: Outcome, *, left: bool) -> str:
    match outcome:
        case Succeeded():
            return "succeeded"
        case NothingToDo():
            return "nothing to do"
        case Yielded():
            return "left its plan" if left else "yielded"
        case Failed():
            return "refused"


def _first(error: Exception) -> str:
    """Return an error in one line. Java's begin with py4j's words, and the cause is at the end of the stack."""
    text = str(error)
    causes = re.findall(r"^(?:Caused by: |: )(.+)$", text, re.MULTILINE)
    return " <- ".join([f"{type(error).__name__}: {text.splitlines()[0] if text else ''}", *causes])[:1500]
