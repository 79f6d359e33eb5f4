"""What the fleet is made of: how many tables of each kind, and what is wrong with some of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Home(StrEnum):
    """Where a table is found, and by what a reader opens it."""

    HUDI = "hudi"
    REST = "rest"
    JDBC = "jdbc"


class Wrong(StrEnum):
    """What is wrong with a table, in the words of its name."""

    NOTHING = ""
    PROPERTIES = "properties"
    COMMIT = "commit"
    VERSION = "version"
    PLAN = "plan"
    FUTURE = "future"
    CRON = "cron"
    LOCK = "lock"
    METADATA = "metadata"
    CUT = "cut"
    MANIFESTS = "manifests"


OF_HUDI = (Wrong.PROPERTIES, Wrong.COMMIT, Wrong.VERSION, Wrong.PLAN, Wrong.FUTURE, Wrong.CRON, Wrong.LOCK)
OF_ICEBERG = (Wrong.METADATA, Wrong.CUT, Wrong.MANIFESTS)
SEEDS = ("mor6", "mor8", "mor9", "cow6", "cow8", "cow9")
"""Hudi tables by their type and their table version."""

CRON_SEEDS = ("mor9cron", "cow9cron")
"""Those of a writer that compacts and cleans by itself."""

_ONE_OF = 12
"""One table in so many has something wrong. In a small fleet more have, so that each kind is there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """One table of the fleet. `live` tables have a writer during the proof."""

    name: str
    home: Home
    seed: str = ""
    wrong: Wrong = Wrong.NOTHING
    live: bool = False


def fleet(tables: int, *, live: int) -> Sequence[Made]:
    """Return the tables of a fleet: three fifths are Hudi tables, one fifth lies in each catalog. `live` is how many
    Hudi tables, and how many tables of each catalog, have a writer. One more Hudi writer has a wrong lock.
    """
    hudi = tables * 3 // 5
    rest = (tables - hudi) // 2
    return (
        *_hudi_tables(hudi, live),
        *_iceberg_tables(Home.REST, rest, live),
        *_iceberg_tables(Home.JDBC, tables - hudi - rest, live),
    )


def _hudi_tables(count: int, live: int) -> list[Made]:
    found: list[Made] = []
    for number in range(count):
        wrong = _wrong(number, count, OF_HUDI)
        seeds = CRON_SEEDS if wrong is Wrong.CRON else SEEDS
        of_kind = sum(one.live for one in found if one.wrong is wrong)
        is_live = of_kind < {Wrong.NOTHING: live, Wrong.LOCK: 1}.get(wrong, 0)
        name = f"h{number:03}_{wrong or 'good'}"
        found.append(Made(name=name, home=Home.HUDI, seed=seeds[number % len(seeds)], wrong=wrong, live=is_live))
    return found


def _iceberg_tables(home: Home, count: int, live: int) -> list[Made]:
    found: list[Made] = []
    for number in range(count):
        wrong = _wrong(number, count, OF_ICEBERG)
        is_live = wrong is Wrong.NOTHING and sum(one.live for one in found) < live
        found.append(Made(name=f"{home[0]}{number:03}_{wrong or 'good'}", home=home, wrong=wrong, live=is_live))
    return found


def _wrong(number: int, count: int, kinds: Sequence[Wrong]) -> Wrong:
    """Return what is wrong with the table of a number: the kinds take turns."""
    one_of = max(3, min(_ONE_OF, count // len(kinds)))
    return kinds[number // one_of % len(kinds)] if number % one_of == one_of - 1 else Wrong.NOTHING
