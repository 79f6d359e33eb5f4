"""Answers to requests that act. They are kept by the keys of the requests, so that a repeated request acts once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from lakewarden.planners.model.errors import LakewardenError

KEPT_FOR = timedelta(days=1)
"""How long an answer is kept."""

MOST_OF_A_CALLER = 10_000
"""So many answers are kept for one caller within that time."""


class TooManyAnswersError(LakewardenError):
    """The caller has used too many keys within a day."""

    def __init__(self) -> None:
        super().__init__(f"the caller has sent {MOST_OF_A_CALLER} keys within a day")


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerRow:
    """A request with a key, and its answer.

    `caller`, `route` and `digest` are SHA-256 in hexadecimal: of the key or name of its caller, of its method and
    address, and of its body. `replica` carries the request out, until `claimed_until` at the latest. `status` is None
    until the request is answered.
    """

    caller: str
    route: str
    key: str
    digest: str
    replica: str
    created_at: datetime
    claimed_until: datetime
    status: int | None = None
    body: str | None = None


class KeptAnswers(Protocol):
    """Keeps answers. Every method is durable when it returns, and raises TemporaryError as those of the store do."""

    def claim_answer(self, row: AnswerRow) -> AnswerRow | None:
        """Add the row of a request without an answer, and return None.

        If the caller has a row with this route and key, return that one, and add none. Raises TooManyAnswersError if
        the caller has too many rows of the last day.
        """
        ...

    def keep_answer(self, row: AnswerRow) -> None:
        """Keep the answer and the end of the claim of a row that was added and has no answer yet."""
        ...

    def drop_answer(self, row: AnswerRow) -> None:
        """Delete a row that was added and has no answer, because nothing was done."""
        ...

    def forget_answers(self, *, before: datetime, most: int) -> int:
        """Delete rows from before that time, `most` of them at once. Return how many."""
        ...
