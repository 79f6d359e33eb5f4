"""How an exception of the JVM leaves a step. All formats use this translation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import structlog
from py4j.java_gateway import JavaMember
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from lakewarden.planners.model.errors import LakewardenError, UnknownError
from lakewarden.planners.model.instant import Step

log = structlog.get_logger(__name__)

_LONGEST_MESSAGE = 400

Meaning = Callable[[Sequence[str], Step], LakewardenError]
"""Returns the error for a chain of Java exceptions (`class: message`, the outermost first) in a step."""


@contextlib.contextmanager
def translated(step: Step, meaning: Meaning) -> Iterator[None]:
    """Run Java calls of one step. Their exceptions are raised as the error that `meaning` returns."""
    try:
        yield
    except Py4JJavaError as error:
        raise meaning(_causes(error.java_exception), step) from error
    except CapturedException as error:  # PySpark's form of the exceptions that it knows
        raise meaning(_causes(error._origin), step) from error  # noqa: SLF001 - the only access to the exception
    except (Py4JError, OSError) as error:  # the JVM is gone, or the connection to it
        raise UnknownError(f"the JVM cannot be reached: {error}") from error


def each(iterator: Any) -> Iterator[Any]:
    """Yield what a Java iterator gives. Py4J's own `next` takes every error of Java for the end of the iteration."""
    take = JavaMember("next", iterator, iterator._target_id, iterator._gateway_client)  # noqa: SLF001
    while iterator.hasNext():
        yield take()


@contextlib.contextmanager
def on_the_way_out(what: str, meaning: Meaning) -> Iterator[None]:
    """Run Java calls that free or release something. Their failure is logged, and does not hide a run's outcome."""
    try:
        with translated(Step.EXECUTE, meaning):
            yield
    except LakewardenError as error:
        log.warning("abort_failed", what=what, reason=str(error))


def for_people(causes: Sequence[str]) -> str:
    """Return the outermost and the innermost exception, each in one line, without packages and stacks."""
    lines = [_first_line(cause) for cause in (causes[0], causes[-1]) if cause.strip()]
    short = list(dict.fromkeys(line.rsplit(".", 1)[-1] if ":" not in line else _short(line) for line in lines))
    return " <- ".join(short)[:_LONGEST_MESSAGE]


def _first_line(cause: str) -> str:
    """Return the first line with a message. Spark's parser begins its message on a line of its own."""
    first, *others = (line.strip() for line in cause.splitlines() if line.strip())
    return f"{first} {others[0]}" if others and first.endswith(":") else first


def _short(line: str) -> str:
    name, message = line.split(":", 1)
    return f"{name.rsplit('.', 1)[-1]}:{message}"


def _causes(exception: Any) -> Sequence[str]:
    causes: list[str] = []
    while exception is not None and len(causes) < 12:  # a chain of causes may be circular
        causes.append(str(exception.toString()))
        exception = exception.getCause()
    return causes
