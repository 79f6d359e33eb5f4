"""The fleet of the proof: what it has, and what its report calls a shortcoming."""

from __future__ import annotations

from collections import Counter

import pytest
import yaml

from live.fleet.configuration import MOST_LINES, acting, edited
from live.fleet.kinds import OF_HUDI, OF_ICEBERG, SEEDS, Home, Wrong, fleet
from live.fleet.report import FleetReport, Ratio

FIRST_FILE = """\
# Written by `lakewarden init`.
policies:
  hudi:
    mode: observe
    services: {compaction: {}, clustering: {}, clean: {}, archive: {}, rollback: {}}
  iceberg:
    mode: observe
    services: {compaction: {}, clean: {}, orphans: {}, archive: {}}
tables:
  - {match: "/lake/*/", format: hudi, policy: hudi}
  - {match: "catalog://lake/*", policy: iceberg}
"""


@pytest.mark.parametrize("tables", [40, 800])
def test_a_fleet_has_each_kind_and_most_of_it_is_without_a_fault(tables: int) -> None:
    """Tables of each version, in each home. Some have a writer, and one of these has a wrong lock."""
    found = fleet(tables, live=4)
    assert len({one.name for one in found}) == tables
    assert {one.seed for one in found if one.home is Home.HUDI} >= set(SEEDS)
    wrong = Counter((one.home, one.wrong) for one in found)
    assert all(wrong[Home.HUDI, kind] for kind in OF_HUDI)
    if tables == 800:
        assert all(wrong[home, kind] for home in (Home.REST, Home.JDBC) for kind in OF_ICEBERG)
    assert sum(one.wrong is Wrong.NOTHING for one in found) > 0.6 * tables
    live = Counter((one.home, one.wrong) for one in found if one.live)
    assert live == {
        (Home.HUDI, Wrong.NOTHING): 4,
        (Home.HUDI, Wrong.LOCK): 1,
        (Home.REST, Wrong.NOTHING): 4,
        (Home.JDBC, Wrong.NOTHING): 4,
    }


def test_the_operator_changes_the_modes_and_keeps_the_rest() -> None:
    """The file stays short, and every policy waits for the proof of the table."""
    observing = edited(FIRST_FILE, port=1, management=2, driver="/jars/driver.jar")
    assert {policy["mode"] for policy in yaml.safe_load(observing)["policies"].values()} == {"observe"}
    text = acting(observing)
    assert len(text.splitlines()) <= MOST_LINES
    written = yaml.safe_load(text)
    assert {(policy["mode"], policy["act_when"]) for policy in written["policies"].values()} == {("act", "proved")}
    assert written["tables"] == yaml.safe_load(FIRST_FILE)["tables"]


def test_each_broken_promise_is_a_shortcoming() -> None:
    """One sentence each. Without one, the exit code is 0."""
    good = FleetReport(tables=3, healthy=2, acting=2, config_lines=30)
    assert good.shortcomings() == []
    bad = FleetReport(
        tables=3,
        healthy=2,
        acting=1,
        config_lines=41,
        not_named=["a"],
        harmed=["b"],
        wrong_rows=["c"],
        write_failures=["e"],
    )
    assert len(bad.shortcomings()) == 6


def test_a_forecast_is_off_beyond_twice_or_half() -> None:
    """None to do, and none foretold, is right."""
    of = [(10, 20), (10, 21), (10, 5), (10, 4), (0, 0)]
    found = [Ratio(table="t", service="s", figure="f", forecast=said, done=done).is_off for said, done in of]
    assert found == [False, True, False, True, False]
