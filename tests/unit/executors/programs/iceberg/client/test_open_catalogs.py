"""The open catalogs of a JVM: one for each set of settings, shared by all runs. Each is closed at some time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from lakewarden.executors.programs.iceberg.client.opened import LentCatalog, OpenCatalogs, SparkCatalogSettings


@dataclass
class Connections:
    """The connections of a database, each with the settings that it was opened with."""

    open: list[Any] = field(default_factory=list)

    def catalogs(self) -> OpenCatalogs:
        return OpenCatalogs(self.open.remove)

    def take(self, catalogs: OpenCatalogs, settings: SparkCatalogSettings) -> LentCatalog:
        def make() -> Any:
            self.open.append(made := (settings, object()))
            return made

        return catalogs.take(settings, make)


def settings(password: str = "one", *, name: str = "lake") -> SparkCatalogSettings:
    return SparkCatalogSettings(configured=name, name="prod", properties={"jdbc.password": password})


def test_runs_of_one_catalog_share_what_is_open() -> None:
    """Thirty idle cleans left thirty connections to the catalog's database."""
    database = Connections()
    catalogs = database.catalogs()
    for _ in range(30):
        first, second = database.take(catalogs, settings()), database.take(catalogs, settings())
        assert first is second
        catalogs.give_back(first)
        catalogs.give_back(second)

    assert len(database.open) == 1


def test_a_catalog_whose_secret_has_changed_is_closed_once_the_last_run_has_ended() -> None:
    """A run under way is not interrupted. The next run uses the current secret."""
    database = Connections()
    catalogs = database.catalogs()
    old = database.take(catalogs, settings("one"))
    new = database.take(catalogs, settings("two"))
    assert [one.properties["jdbc.password"] for one, _ in database.open] == ["one", "two"]
    catalogs.give_back(old)

    assert [one.properties["jdbc.password"] for one, _ in database.open] == ["two"]
    catalogs.give_back(new)
    assert len(database.open) == 1


def test_a_broken_catalog_is_given_to_no_other_run() -> None:
    """A connection that its database closed stays in Iceberg's pool, and makes run after run fail."""
    database = Connections()
    catalogs = database.catalogs()
    broken, beside = database.take(catalogs, settings()), database.take(catalogs, settings())
    catalogs.give_back(broken, broken=True)
    catalogs.give_back(beside, broken=True)
    assert not database.open

    assert database.take(catalogs, settings()) is not broken


def test_two_catalogs_of_one_name_in_spark_are_two() -> None:
    """The rows of several databases may have the same catalog name."""
    database = Connections()
    catalogs = database.catalogs()
    for name in ("east", "west", "east", "west"):
        catalogs.give_back(database.take(catalogs, settings(name=name)))

    assert [one.configured for one, _ in database.open] == ["east", "west"]


def test_a_catalog_that_cannot_be_opened_is_tried_by_the_next_run() -> None:
    """A failed opening is not remembered."""
    database = Connections()
    catalogs = database.catalogs()

    def refused() -> Any:
        raise ConnectionError("no")

    with pytest.raises(ConnectionError):
        catalogs.take(settings(), refused)
    assert database.take(catalogs, settings()).java in database.open


def test_secrets_are_not_shown() -> None:
    """Settings may be written to a log."""
    assert "hunter2" not in repr(settings("hunter2"))


class Sharing(RuleBasedStateMachine):
    """Runs start and end, secrets change and connections break in any order."""

    lent = Bundle("lent")

    def __init__(self) -> None:
        super().__init__()
        self.database = Connections()
        self.catalogs = self.database.catalogs()
        self.used: list[LentCatalog] = []

    @rule(target=lent, password=st.sampled_from(["one", "two"]), name=st.sampled_from(["east", "west"]))
    def take(self, password: str, name: str) -> LentCatalog:
        taken = self.database.take(self.catalogs, settings(password, name=name))
        assert taken.settings.properties["jdbc.password"] == password
        self.used.append(taken)
        return taken

    @rule(taken=consumes(lent), broken=st.booleans())
    def give_back(self, taken: LentCatalog, *, broken: bool) -> None:
        self.used.remove(taken)
        self.catalogs.give_back(taken, broken=broken)

    @rule()
    def stop(self) -> None:
        self.catalogs.close_all()

    @invariant()
    def what_is_used_is_open_and_at_most_one_of_a_name_besides(self) -> None:
        for taken in self.used:
            assert taken.java in self.database.open
        idle = [one.configured for one, key in self.database.open if all(u.java[1] is not key for u in self.used)]
        assert len(idle) == len(set(idle))


TestSharing = Sharing.TestCase
