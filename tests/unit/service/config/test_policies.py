"""How triggers, windows, budgets and cleans that follow compactions are written, and what they become."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import DeletionBudget, Mode, Policy, Table
from lakewarden.planners.model.window import Weekday, Window
from lakewarden.planners.triggers import (
    AllOf,
    AnyOf,
    LogBytes,
    LogFiles,
    NumCommits,
    NumCommitsAfterLastRequest,
    NumRewrites,
    SmallFiles,
    TimeElapsed,
    Trigger,
    WhenAsked,
)
from lakewarden.service.config.loading import load
from tests.support.doubles.formats import TEST_FORMATS

HOUR = timedelta(hours=1)


def a_table(folder: Path, services: str, *, more: str = "", defaults: str = "{}", top: str = "") -> Table:
    """Load a file with one fake table."""
    file = folder / "lakewarden.yaml"
    file.write_text(
        f"{top}\ndefaults: {defaults}\ntables: [{{id: a, format: fake, path: /x, services: {{{services}}}{more}}}]"
    )
    (table,) = load(file, formats=TEST_FORMATS).tables
    return table


def compaction(folder: Path, written: str) -> Policy:
    """Return what is written down of a compaction policy."""
    return a_table(folder, f"compaction: {{{written}}}").policies[Service.COMPACTION]


PROFILES = "spark: {default: {}, large: {memory: 4g}, abroad: {timezone: Asia/Tokyo}}"


def test_a_service_may_have_workers_of_its_own(tmp_path: Path) -> None:
    """The table's other services, and those that say nothing, stay with the table's profile."""
    written = "clustering: {spark: large, session: {spark.sql.shuffle.partitions: '64'}}, compaction: {}"
    table = a_table(tmp_path, written, top=PROFILES)
    assert table.policies[Service.CLUSTERING].session == {"spark.sql.shuffle.partitions": "64"}
    assert [table.profile_of(one) for one in (Service.CLUSTERING, Service.COMPACTION, Service.CLEAN)] == [
        "large",
        "default",
        "default",
    ]
    assert table.profiles() == {"default", "large"}


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("spark: huge", "clustering.spark: there is no spark profile 'huge'; there is default, large, abroad"),
        ("spark: abroad", "one table has one zone"),
        ("spark: large", "the workers of 'large' have no bundle of fake: add it to spark.large.formats"),
        ("session: {spark.executor.memory: 8g}", "session.spark.executor.memory"),
    ],
)
def test_workers_that_could_not_serve_a_service_are_refused(tmp_path: Path, written: str, said: str) -> None:
    """By the key that is wrong, before anything starts."""
    profiles = PROFILES.replace("{}", "{formats: [hudi, fake]}").replace("timezone", "formats: [fake], timezone")
    profiles = profiles.replace("memory", "formats: [hudi], memory")
    with pytest.raises(PermanentError, match=re.escape(said)):
        a_table(tmp_path, f"clustering: {{{written}}}", more=", mode: act", top=profiles)


@pytest.mark.parametrize("master", ["k8s://host:6443", "yarn", "local-cluster[2,1,1024]"])
@pytest.mark.parametrize("service", ["", "spark: large"])
def test_no_table_is_acted_on_by_executors_that_may_outlive_their_worker(
    tmp_path: Path, master: str, service: str
) -> None:
    """A dead worker proves nothing about executors elsewhere. Tables that only look have any master."""
    name = "large" if service else "default"
    top = f"spark: {{{name}: {{formats: [fake], master: '{master}'}}}}"
    if service:
        top = top.replace("{large", "{default: {formats: [fake]}, large")
    a_table(tmp_path, f"clustering: {{{service}}}", more=", mode: plan", top=top)
    with pytest.raises(PermanentError, match=re.escape(f"set spark.{name}.master to local[*]")):
        a_table(tmp_path, f"clustering: {{{service}}}", more=", mode: act", top=top)


def test_a_table_is_acted_on_by_executors_with_an_end_that_can_be_proved(tmp_path: Path) -> None:
    """Those of a standalone cluster: its master says that they have ended, or their own deadline does."""
    top = "spark: {default: {formats: [fake], master: 'spark://host:7077'}}"
    assert a_table(tmp_path, "clustering: {}", more=", mode: act", top=top).mode is Mode.ACT


def test_what_a_person_asks_for_has_no_trigger(tmp_path: Path) -> None:
    """A metadata table is not dropped by a rule."""
    file = tmp_path / "lakewarden.yaml"
    for written, wrong in (("{}", False), ("{trigger: {num_commits: 5}}", True)):
        file.write_text(f"tables: [{{id: a, format: hudi, path: /x, services: {{metadata_validation: {written}}}}}]")
        if wrong:
            with pytest.raises(PermanentError, match="runs only when an operator asks for it: remove the trigger"):
                load(file, formats=TEST_FORMATS)
        else:
            (table,) = load(file, formats=TEST_FORMATS).tables
            assert table.policies[Service.METADATA_VALIDATION].trigger == WhenAsked()


@pytest.mark.parametrize(
    ("written", "trigger"),
    [
        ("NUM_COMMITS", NumCommits(at_least=5)),
        ("{NUM_COMMITS: 7}", NumCommits(at_least=7)),
        ("NUM_COMMITS_AFTER_LAST_REQUEST", NumCommitsAfterLastRequest(at_least=5)),
        ("TIME_ELAPSED", TimeElapsed(at_least=HOUR)),
        ("{TIME_ELAPSED: 2h}", TimeElapsed(at_least=2 * HOUR)),
        ("NUM_AND_TIME", AllOf(triggers=(NumCommits(at_least=5), TimeElapsed(at_least=HOUR)))),
        (
            "{NUM_OR_TIME: {num_commits: 7, time_elapsed: 2h}}",
            AnyOf(triggers=(NumCommits(at_least=7), TimeElapsed(at_least=2 * HOUR))),
        ),
        ("{NUM_OR_TIME: {num_commits: 7}}", AnyOf(triggers=(NumCommits(at_least=7), TimeElapsed(at_least=HOUR)))),
        (
            "{any_of: [NUM_COMMITS, {log_files: 9}]}",
            AnyOf(triggers=(NumCommits(at_least=5), LogFiles(at_least=9))),
        ),
        ("{log_bytes: 64MiB}", LogBytes(at_least=64 * 2**20)),
        ("{small_files: 12}", SmallFiles(at_least=12)),
    ],
)
def test_hudis_names_of_strategies_stand_for_what_they_compose(tmp_path: Path, written: str, trigger: Trigger) -> None:
    """Alone with Hudi's numbers (5 commits, an hour), with numbers of one's own, and as parts of others."""
    assert compaction(tmp_path, f"trigger: {written}").trigger == trigger


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("NUM_COMMIT", "a trigger is one of num_commits, "),
        ("{NUM_COMMITS: many}", "NUM_COMMITS: 'many' is not a number"),
        ("{NUM_AND_TIME: 5}", "NUM_AND_TIME: needs num_commits and time_elapsed, as in {num_commits: 5"),
        ("{NUM_OR_TIME: {commits: 5}}", "NUM_OR_TIME: needs num_commits and time_elapsed"),
        ("{log_bytes: 0B}", "log_bytes: 0B is too low: write 1B to 1024TiB"),
    ],
)
def test_a_wrong_trigger_is_named_with_what_may_stand_there(tmp_path: Path, written: str, problem: str) -> None:
    """Under the path of its key."""
    with pytest.raises(PermanentError) as refused:
        compaction(tmp_path, f"trigger: {written}")

    assert f"tables[0].services.compaction.trigger: {problem}" in str(refused.value)


@pytest.mark.parametrize("start", ['"22:30"', "22:30"])
def test_a_window_is_read_with_quotes_and_without(tmp_path: Path, start: str) -> None:
    """YAML takes 22:30 for a number of base sixty; its days and zone have defaults."""
    assert compaction(tmp_path, f'window: {{start: {start}, end: "06:00"}}').window == Window(
        start=time(22, 30), end=time(6)
    )


def test_a_window_has_days_and_a_zone(tmp_path: Path) -> None:
    """In the words of the calendar."""
    written = 'window: {start: "09:00", end: "17:00", days: [sat, sun], timezone: Europe/Berlin}'

    assert compaction(tmp_path, written).window == Window(
        start=time(9), end=time(17), days=frozenset({Weekday.SAT, Weekday.SUN}), zone=ZoneInfo("Europe/Berlin")
    )
    assert compaction(tmp_path, "").window is None


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ('start: "25:00", end: "06:00"', "window.start: '25:00' is not a time of day, such as '22:00'"),
        ('start: "06:00", end: "06:00"', "start: and end: are both 06:00"),
        ('start: "05:00", end: "06:00", days: [someday]', "'someday' is not a day: use one of mon, tue"),
        ('start: "05:00", end: "06:00", days: []', "window.days: "),
        ('start: "05:00", end: "06:00", timezone: Mars', "window.timezone: 'Mars' is not an IANA time zone"),
        ('start: "05:00"', "window.end: is missing"),
    ],
)
def test_a_wrong_window_is_refused(tmp_path: Path, written: str, problem: str) -> None:
    """With the path of its key and what is wrong there."""
    with pytest.raises(PermanentError) as refused:
        compaction(tmp_path, f"window: {{{written}}}")

    assert problem in str(refused.value)


# -- cleans that follow compactions


def test_a_clean_that_is_not_asynchronous_follows_each_compaction(tmp_path: Path) -> None:
    """It runs beside nothing, and needs no trigger."""
    policies = a_table(tmp_path, "compaction: {}, clean: {async: false}").policies

    assert policies[Service.CLEAN].trigger == NumRewrites(at_least=1)
    assert not policies[Service.CLEAN].beside
    assert policies[Service.COMPACTION].beside


@pytest.mark.parametrize(
    ("services", "problem"),
    [
        ("compaction: {async: false}", "compaction.async: only a clean can be told to run after each compaction"),
        (
            "compaction: {}, clean: {async: false, trigger: {num_commits: 1}}",
            "clean.async: false lets it run after each compaction, so it has no trigger of its own",
        ),
        ("clean: {async: false}", "clean.async: false lets it run after each compaction, but the table has no compac"),
    ],
)
def test_following_compactions_is_refused_where_it_says_nothing(tmp_path: Path, services: str, problem: str) -> None:
    """Each with the path of its key, and which of two contradicting keys is too much."""
    with pytest.raises(PermanentError) as refused:
        a_table(tmp_path, services)

    assert f"tables[0].services.{problem}" in str(refused.value)


# -- deletion budgets


def test_a_budget_is_the_tables_own_or_the_defaults(tmp_path: Path) -> None:
    """As a whole: a table that has one has nothing of the defaults' one."""
    defaults = "{budget: {files: 7, partitions: 3}}"

    usual = DeletionBudget(files=100_000, percent=99.99, partitions=100, asks_first=True, asks_shorter=True)
    assert a_table(tmp_path, "").budget == usual
    assert a_table(tmp_path, "", defaults=defaults).budget == replace(usual, files=7, partitions=3)
    allowed = "first_clean: allow, shorter_retention: allow"
    own = f", budget: {{files: null, percent: 80, partitions: null, {allowed}}}"
    assert a_table(tmp_path, "", defaults=defaults, more=own).budget == DeletionBudget(percent=80)


@pytest.mark.parametrize(
    ("key", "value"), [("files", "-1"), ("percent", "101"), ("partitions", "many"), ("bytes", "3")]
)
def test_a_wrong_budget_is_refused(tmp_path: Path, key: str, value: str) -> None:
    """Under the path of its key."""
    with pytest.raises(PermanentError, match=rf"tables\[0\].budget.{key}: "):
        a_table(tmp_path, "", more=f", budget: {{{key}: {value}}}")


def test_the_fake_format_is_none_of_a_production_configuration(tmp_path: Path) -> None:
    """It is known to the processes that tests start, and refused by the daemon that people start."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text("tables: [{id: a, format: fake, path: /x}]")

    assert load(file, formats=TEST_FORMATS).tables
    with pytest.raises(PermanentError, match=r"'fake' is not a format: use one of hudi, iceberg, paimon, directory$"):
        load(file)
