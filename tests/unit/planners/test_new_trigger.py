"""A trigger that no other code knows: its class alone has everything that the product needs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

import pytest

from lakewarden.planners.formats.hudi.backlog.backlog import needs_commits
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import Backlog
from lakewarden.planners.triggers import TRIGGERS, AllOf, Composite, Count, NumCommits, Trigger, TriggerJudgement
from lakewarden.service.config.trigger import parse_trigger
from lakewarden.service.reporting.explain.assembly import due_when


@dataclass(frozen=True, kw_only=True, slots=True)
class _FileGroups(Trigger):
    word: ClassVar = "file_groups"
    at_least: Count

    def judge(self, backlog: Backlog, now: datetime) -> TriggerJudgement:
        return TriggerJudgement(fires=(backlog.file_groups or 0) >= self.at_least, reason="file groups")

    def describe(self) -> str:
        return f"{self.at_least} file groups"

    def counts_files(self) -> bool:
        return True


NEW = _FileGroups(at_least=3)


@pytest.mark.parametrize("trigger", [NEW, AllOf(triggers=(NumCommits(at_least=5), NEW))])
def test_a_new_trigger_is_a_class(trigger: Trigger) -> None:
    """It is explained, the format counts its backlog, and the configuration accepts it."""
    policy = Policy(trigger=trigger)
    table = Table(id=TableId("t"), format="hudi", location="/t", policies={Service.CLEAN: policy})

    assert "3 file groups" in due_when(policy)
    assert needs_commits(table)
    assert parse_trigger(trigger) is trigger


def test_a_trigger_is_read_within_the_bounds_that_its_class_states() -> None:
    """A number outside the bounds is refused with their description."""
    assert _FileGroups.read(7) == _FileGroups(at_least=7)
    with pytest.raises(ValueError, match="0 is too low: write 1 to 1000000"):
        _FileGroups.read(0)


@pytest.mark.parametrize("kind", [kind for kind in TRIGGERS if kind.word is not None])
def test_every_trigger_that_has_a_word_can_be_written_down(kind: type[Trigger]) -> None:
    """The configuration knows each trigger by the word of its class."""
    argument = [{"num_commits": 5}] if issubclass(kind, Composite) else None
    if argument is not None:
        assert isinstance(parse_trigger({kind.word: argument}), kind)
    else:
        with pytest.raises(ValueError, match=f"^{kind.word}: None is no"):
            parse_trigger({kind.word: None})
