"""Inputs for one reader, one after another, in the process that reads them."""

from __future__ import annotations

import re
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from fuzz.mutations import mutated
from fuzz.readers import Reader

DEADLINE = 2.0
"""The seconds on a core that one input may take."""

MEMORY = 512 * 2**20
"""The bytes by which a process may grow, whatever it reads."""

_CORPUS = 2000
_DIGITS = re.compile(r"[0-9]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """An input that a reader did not handle, and how it failed."""

    what: str
    content: bytes


@dataclass(kw_only=True, slots=True)
class Tally:
    """The inputs that were tried, and the findings."""

    at_first: int
    inputs: int = 0
    slowest: float = 0.0
    corpus: list[bytes] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def memory(self) -> int:
        """Return the most bytes by which this process has grown."""
        return _memory() - self.at_first


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class TooSlowError(BaseException):
    """An input took longer than it may. No reader catches this error."""


def tried(
    reader: Reader, chance: Random, *, go_on: Callable[[Tally], bool], begun: Callable[[bytes], None] = lambda _: None
) -> Tally:
    """Try inputs as long as `go_on` says. Each is reported before it is read.

    If an input takes a new way through the reader, it is kept and changed further. The way is the lines by which it was
    refused, or the result.
    """
    tally = Tally(corpus=list(reader.seeds), at_first=_memory())
    ways: set[str] = set()
    for content in _inputs(tally, chance):
        if not go_on(tally) or tally.findings:
            break
        begun(content)
        way = _read(reader, content, tally)
        tally.inputs += 1
        if way not in ways and len(tally.corpus) < _CORPUS:
            ways.add(way)
            tally.corpus.append(content)
    return tally


def _inputs(tally: Tally, chance: Random) -> Iterator[bytes]:
    yield from tuple(tally.corpus)
    while True:
        yield mutated(tally.corpus, chance)


def _read(reader: Reader, content: bytes, tally: Tally) -> str:
    """Read one input and return its way through the reader. An error goes into the tally."""
    begun = time.process_time()
    way = ""
    try:
        with _watched():
            way = _DIGITS.sub("#", reader.read(content))
    except reader.refusals as refusal:
        way = _places(refusal)
    except TooSlowError:
        tally.findings.append(Finding(what=f"took more than {DEADLINE:g} s of a core", content=content))
    except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
        tally.findings.append(Finding(what=traceback.format_exc(), content=content))
    tally.slowest = max(tally.slowest, time.process_time() - begun)
    if tally.memory > MEMORY:
        tally.findings.append(Finding(what=f"took {tally.memory} bytes of memory", content=content))
    return way


def _places(refusal: BaseException | None) -> str:
    """Return the lines by which an input was refused."""
    found = []
    while refusal is not None:
        found += [f"{frame.f_code.co_name}:{line}" for frame, line in traceback.walk_tb(refusal.__traceback__)]
        refusal = refusal.__cause__
    return " ".join(found)


@contextmanager
def _watched() -> Iterator[None]:
    """Limit the time on a core for an input."""

    def too_slow(_signal: int, _frame: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, too_slow)
    signal.setitimer(signal.ITIMER_PROF, DEADLINE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
