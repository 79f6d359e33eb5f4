"""A process that surveys tables for the report, one after the other. It may be killed at any time.

`workers.py` starts it with `python -m lakewarden.service.commands.report.worker`. It writes an empty answer when it is
ready. Then it reads pickled tables from its standard input, and writes a line of JSON for each.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import BinaryIO

from pydantic import TypeAdapter

from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.table import Table
from lakewarden.planners.reading import limits
from lakewarden.planners.settings import format_size
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.settings import StoreSettings
from lakewarden.planners.surveying.registry import surveyors
from lakewarden.service.commands.report.judging import line_of
from lakewarden.service.commands.report.lines import SurveyAnswer

ANSWER: TypeAdapter[SurveyAnswer] = TypeAdapter(SurveyAnswer)
_LONGEST_MESSAGE = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyHello:
    """The first message: how to reach stores, the limit on memory in bytes, and the process not to outlive."""

    stores: Sequence[StoreSettings]
    memory: int
    parent: int


def answer_of(table: Table, storages: Storages) -> SurveyAnswer:
    """Return the line of a table, or why there is none. Only a MemoryError is raised."""
    begun, now = time.monotonic(), datetime.now(UTC)
    surveyor = surveyors()[table.format]
    table = replace(table, policies=surveyor.policies)
    try:
        survey = surveyor.survey(table, storages.of(table.location), now=now)
        line = line_of(table, survey, now=now)
    except MemoryError:
        raise
    except LakewardenError as error:
        return SurveyAnswer(unread=str(error)[:_LONGEST_MESSAGE])
    except Exception as unforeseen:  # noqa: BLE001 - the failure of one table must not affect another
        return SurveyAnswer(unread=f"{type(unforeseen).__name__}: {unforeseen}"[:_LONGEST_MESSAGE])
    return SurveyAnswer(table=replace(line, seconds=round(time.monotonic() - begun, 3)))


def serve(asked: BinaryIO, answers: BinaryIO) -> None:
    """SurveyAnswer until there are no more tables."""
    hello: SurveyHello = pickle.load(asked)  # noqa: S301 - as above
    limits.die_with_parent(hello.parent)
    surveyors()
    limits.limit_memory(hello.memory)
    storages = Storages(hello.stores)
    _write(answers, SurveyAnswer())
    while True:
        try:
            table: Table = pickle.load(asked)  # noqa: S301 - as above
        except EOFError:
            return
        try:
            answer = answer_of(table, storages)
        except MemoryError:
            _write(
                answers,
                SurveyAnswer(unread=f"it cannot be read within {format_size(hello.memory)} of memory", ends=True),
            )
            os._exit(0)
        _write(answers, answer)


def _write(answers: BinaryIO, answer: SurveyAnswer) -> None:
    answers.write(ANSWER.dump_json(answer) + b"\n")
    answers.flush()


if __name__ == "__main__":
    _answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    serve(sys.stdin.buffer, _answers)
