"""Notices: what operators are told without asking, and which of it they have been told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from lakewarden.planners.model.table import TableId


class NoticeKind(StrEnum):
    """What a notice is about."""

    APPROVAL = "approval"
    QUARANTINE = "quarantine"
    WRITER_FAILURE = "writer_failure"
    DEBT = "debt"


Key = tuple[TableId, NoticeKind, str]
"""The table, the kind and the subject of a notice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeRow:
    """A notice in the store. `subject` tells several notices of a kind and a table apart, such as a service.

    `replica` sends it until `claimed_until`. `sent_at` is None until a receiver has taken it. `gone_at` is when its
    cause had gone, or None.
    """

    table: TableId
    kind: NoticeKind
    subject: str
    found_at: datetime
    replica: str
    claimed_until: datetime
    sent_at: datetime | None = None
    gone_at: datetime | None = None

    @property
    def key(self) -> Key:
        """Return what makes it the same notice."""
        return self.table, self.kind, self.subject


class KeptNotices(Protocol):
    """Keeps notices. Every method is durable when it returns, and raises TemporaryError as those of the store do."""

    def notices(self) -> Sequence[NoticeRow]:
        """Return every notice."""
        ...

    def claim_notices(self, rows: Sequence[NoticeRow], *, at: datetime) -> Sequence[NoticeRow]:
        """Add the rows, and return those that the replica in them may send now.

        A row that is there already is left out if it was sent, or if another replica has claimed it until after `at`.
        """
        ...

    def keep_notices(self, rows: Sequence[NoticeRow]) -> None:
        """Keep rows, and replace the previous ones."""
        ...

    def forget_notices(self, rows: Sequence[NoticeRow]) -> None:
        """Delete rows."""
        ...
