"""How an exception of the JVM comes out of a step: what every format's border of translation shares."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import structlog
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from lakewarden.executors.contract import Step
from lakewarden.planners.model.errors import LakewardenError, UnknownError

log = structlog.get_logger(__name__)

_LONGEST_MESSAGE = 400

Meaning = Callable[[Sequence[str], Step], LakewardenError]
"""What a chain of Java exceptions (`class: message`, the outermost first) stands for in a step."""


@contextlib.contextmanager
def translated(step: Step, meaning: Meaning) -> Iterator[None]:
    """Run Java calls of one step; what they raise leaves as the error that `meaning` finds in it."""
    try:
        yield
    except Py4JJavaError as error:
        raise meaning(_causes(error.java_exception), step) from error
    except CapturedException as error:  # what PySpark makes of the exceptions that it knows
        raise meaning(_causes(error._origin), step) from error  # noqa: SLF001 - its only way back to the exception
    except (Py4JError, OSError) as error:  # the JVM is gone, or the way to it
        raise UnknownError(f"the JVM cannot be reached: {error}") from error


@contextlib.contextmanager
def on_the_way_out(what: str, meaning: Meaning) -> Iterator[None]:
    """Run Java calls that free or release something: their failure is logged, and hides no ending of a run."""
    try:
        with translated(Step.EXECUTE, meaning):
            yield
    except LakewardenError as error:
        log.warning("a way out of a run failed", what=what, reason=str(error))


def for_people(causes: Sequence[str]) -> str:
    """Return the outermost and the innermost exception, each in one line, without packages and stacks."""
    lines = [cause.strip().splitlines()[0] for cause in (causes[0], causes[-1]) if cause.strip()]
    short = list(dict.fromkeys(line.rsplit(".", 1)[-1] if ":" not in line else _short(line) for line in lines))
    return " <- ".join(short)[:_LONGEST_MESSAGE]


def _short(line: str) -> str:
    name, message = line.split(":", 1)
    return f"{name.rsplit('.', 1)[-1]}:{message}"


def _causes(exception: Any) -> Sequence[str]:
    causes: list[str] = []
    while exception is not None and len(causes) < 12:  # a chain may bite its tail
        causes.append(str(exception.toString()))
        exception = exception.getCause()
    return causes
