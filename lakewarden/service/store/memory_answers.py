"""The answers to requests that act, in a store without a database."""

from __future__ import annotations

import threading
from datetime import datetime

from lakewarden.service.model.answers import KEPT_FOR, MOST_OF_A_CALLER, AnswerRow, TooManyAnswersError


class MemoryAnswers:
    """Keeps answers in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self._answers: dict[tuple[str, str, str], AnswerRow] = {}
        self._answers_lock = threading.Lock()

    def claim_answer(self, row: AnswerRow) -> AnswerRow | None:
        """Add a row, or return the one that is there."""
        with self._answers_lock:
            there = self._answers.get(_key(row))
            if there is not None:
                return there
            since = row.created_at - KEPT_FOR
            recent = sum(one.caller == row.caller and one.created_at > since for one in self._answers.values())
            if recent >= MOST_OF_A_CALLER:
                raise TooManyAnswersError
            self._answers[_key(row)] = row
            return None

    def keep_answer(self, row: AnswerRow) -> None:
        """Keep the answer of a row."""
        with self._answers_lock:
            if self._in_flight(row):
                self._answers[_key(row)] = row

    def drop_answer(self, row: AnswerRow) -> None:
        """Delete a row without an answer."""
        with self._answers_lock:
            if self._in_flight(row):
                del self._answers[_key(row)]

    def forget_answers(self, *, before: datetime, most: int) -> int:
        """Delete up to `most` old rows."""
        with self._answers_lock:
            old = [key for key, row in self._answers.items() if row.created_at < before][:most]
            for key in old:
                del self._answers[key]
            return len(old)

    def _in_flight(self, row: AnswerRow) -> bool:
        there = self._answers.get(_key(row))
        claimed = (row.replica, row.created_at, None)
        return there is not None and (there.replica, there.created_at, there.status) == claimed


def _key(row: AnswerRow) -> tuple[str, str, str]:
    return row.caller, row.route, row.key
