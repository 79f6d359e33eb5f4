"""What holds the compaction of a Paimon table back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.paimon.backlog.blockers import blockers
from lakewarden.planners.formats.paimon.catalogs.settings import HiveCatalog
from lakewarden.planners.formats.paimon.format import PAIMON
from lakewarden.planners.formats.paimon.options.core_options import BucketMode
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from tests.support.paimon.paimon_look import facts_of, registered, view_of
from tests.support.paimon.paimon_table import ADD, PaimonTable


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    table = PaimonTable(tmp_path / "t", clock=ManualClock())
    table.append()
    return table


def reasons(table: PaimonTable) -> list[str]:
    """Return why nothing is compacted."""
    return [one.reason for one in view_of(table).blockers if one.concerns(Service.COMPACTION)]


def later(table: PaimonTable, by: timedelta) -> None:
    assert isinstance(table.clock, ManualClock)
    table.clock.advance(by)


def test_a_table_whose_writers_compact_is_left_alone_with_the_remedy(table: PaimonTable) -> None:
    """By the option of the table, which is false by default."""
    assert reasons(table) == []
    table.alter(write_only="false")
    blocker, of_clean = view_of(table).blockers
    assert "write-only is false" in blocker.reason
    assert "writer-options" in blocker.remedy
    assert not blocker.concerns(Service.CLEAN)
    assert "the writers expire the snapshots themselves" in of_clean.reason
    assert of_clean.services == {Service.CLEAN}


@pytest.mark.parametrize(
    ("hint", "held"), [("1", True), ("9", True), ("2", False), ("3", False), ("5", False), ("0", False), ("x", False)]
)
def test_a_hint_that_paimon_believes_and_that_is_wrong_holds_all_services_back(
    table: PaimonTable, hint: str, held: bool
) -> None:
    """Snapshots 3 to 5 are there. If the next number is there too, Paimon lists the folder."""
    for _ in range(4):
        table.append()
    for number in (1, 2):
        table.snapshot_file(number).unlink()
    (table.folder / "snapshot" / "LATEST").write_text(hint)
    told = [one for one in view_of(table).blockers if one.concerns(Service.CLEAN) and one.concerns(Service.ARCHIVE)]
    assert [f"names snapshot {hint}, and the newest one is 5" in one.reason for one in told] == ([True] if held else [])
    assert all("write 5 into" in one.remedy for one in told)


@pytest.mark.parametrize(
    "options",
    [
        {"changelog__num_retained__min": "20"},
        {"changelog__time_retained": "1 d"},
        {"data_file__path_directory": "data"},
        {"index_file_in_data_file_dir": "true"},
    ],
)
def test_a_table_with_files_that_an_expiry_would_not_find_or_would_take_away_is_not_cleaned(
    table: PaimonTable, options: dict[str, str]
) -> None:
    """Changelogs that outlive their snapshots need files of theirs. Orphans reads those, and files in other folders
    hold it back too. A compaction is not held back.
    """
    table.alter(**options)
    [blocker] = view_of(table).blockers
    assert "deletes nothing" in blocker.reason
    elsewhere = not any(key.startswith("changelog") for key in options)
    assert blocker.services == ({Service.CLEAN, Service.ORPHANS} if elsewhere else {Service.CLEAN})


def test_a_table_with_a_changelog_of_its_own_is_not_cleaned(table: PaimonTable) -> None:
    """Although its options say nothing of it by now. Then it is no remedy to unset them."""
    table.append()
    table.keep_changelog(1)
    [blocker] = view_of(table).blockers
    assert blocker.services == {Service.CLEAN}
    assert "changelogs 1 to 1 have outlived their snapshots" in blocker.reason
    assert "CALL sys.expire_changelogs" in blocker.remedy
    table.alter(changelog__time_retained="1 d")
    [blocker] = view_of(table).blockers
    assert "unset the options" in blocker.remedy


def test_a_table_that_another_program_has_just_compacted_is_left_alone(table: PaimonTable) -> None:
    """A job that began before the option was set compacts on. Our own compactions do not count."""
    table.compact(user="lakewarden-1")
    assert reasons(table) == []
    table.compact(user="a-flink-job")
    told = "the commit user a-flink-job compacted in snapshot 3"
    assert [told in reason for reason in reasons(table)] == [True]
    later(table, timedelta(minutes=61))
    assert reasons(table) == []
    options = PaimonTableOptions(left_alone_for=timedelta(hours=3))
    assert blockers(replace(registered(table), options=options), facts_of(table))
    table.commit([], kind="COMPACT", user="a-merge-of-manifests", merging=True)
    assert reasons(table) == []


def test_an_append_table_is_left_alone_after_files_were_replaced(tmp_path: Path) -> None:
    """A DELETE of Spark would fail if a compaction had taken its files away. With a primary key it only adds some."""
    events = PaimonTable(tmp_path / "events", clock=ManualClock(), keyed=False, options={"write-only": "true"})
    orders = PaimonTable(tmp_path / "orders", clock=ManualClock())
    for one in (events, orders):
        one.commit([(ADD, one.file())], kind="OVERWRITE")
    assert ["replaced files in snapshot 1" in reason for reason in reasons(events)] == [True]
    assert reasons(orders) == []


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("row-tracking.enabled", "true", "row tracking"),
        ("data-evolution.enabled", "true", "data evolution"),
        ("data-file.external-paths", "s3://elsewhere", "files outside the table's folder"),
        ("commit.callbacks", "com.example.Tell", "the option commit.callbacks"),
        ("chain-table.enabled", "true", "the option chain-table.enabled"),
        ("metadata.iceberg.storage", "table-location", "the option metadata.iceberg.storage"),
        ("clustering.incremental", "true", "the option clustering.incremental"),
        ("bucket", "-2", "postponed buckets"),
    ],
)
def test_a_feature_that_is_not_compacted_is_refused_by_its_name(
    table: PaimonTable, option: str, value: str, named: str
) -> None:
    table.alter(**{option.replace("-", "_").replace(".", "__"): value})
    [reason] = reasons(table)
    assert named in reason


@pytest.mark.parametrize(("safe", "cleaned"), [("-1", True), ("0", False), ("7", False)])
def test_a_table_with_writers_that_accept_no_other_compaction_is_left_alone(
    table: PaimonTable, safe: str, cleaned: bool
) -> None:
    """Their commits would fail. Those that look at all snapshots after a given one would miss those that expired."""
    table.alter(commit__strict_mode__last_safe_snapshot=safe)
    [blocker] = view_of(table).blockers
    assert "commit.strict-mode.last-safe-snapshot" in blocker.reason
    held = {Service.COMPACTION, Service.ARCHIVE, Service.TTL}
    assert blocker.services == (held if cleaned else held | {Service.CLEAN})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tag__automatic_creation": "process-time"}, "CALL sys.trigger_tag_automatic_creation"),
        ({"tag__automatic_creation": "watermark"}, "CALL sys.trigger_tag_automatic_creation"),
        ({"tag__default_time_retained": "90 d"}, "CALL sys.expire_tags"),
        ({"tag__automatic_creation": "batch"}, None),
        ({"tag__automatic_creation": "process-time", "write_only": "false"}, None),
    ],
    ids=str,
)
def test_what_write_only_ends_for_tags_is_told_with_what_to_schedule(
    table: PaimonTable, options: dict[str, str], told: str | None
) -> None:
    """No service is held back: the owner of the table may have scheduled it."""
    table.alter(**options)
    view = view_of(table)
    assert [told in one for one in view.warnings if told] == ([True] if told else [])
    assert len(view.warnings) == (1 if told else 0)
    assert len(view.blockers) == (2 if options.get("write_only") else 0)


def test_dynamic_buckets_across_partitions_are_refused(table: PaimonTable) -> None:
    """Their index lies in the state of the writer."""
    facts = facts_of(table)
    options = replace(facts.schema.options, bucket_mode=BucketMode.CROSS_PARTITION)
    found = blockers(registered(table), replace(facts, schema=replace(facts.schema, options=options)))
    assert ["across partitions" in one.reason for one in found] == [True]


def test_metadata_of_a_newer_release_is_refused_where_it_says_something(table: PaimonTable) -> None:
    """A field without a value is none: nothing would be lost."""
    table.append(table.file(stated={"_NEWER": None}))
    assert reasons(table) == []
    table.append(table.file(stated={"_NEWER": 7}))
    assert ["_NEWER" in reason for reason in reasons(table)] == [True]
    table.append(stated={"futureField": 1})
    assert ["futureField, _NEWER" in reason for reason in reasons(table)] == [True]


@pytest.mark.parametrize(
    ("location", "lock", "served"),
    [
        ("/lake/db.db/t", False, True),
        ("s3://lake/db.db/t", None, True),
        ("s3://lake/db.db/t", False, False),
        ("hdfs://nn/db.db/t", True, False),
        ("gs://lake/db.db/t", True, False),
    ],
)
def test_on_s3_the_lock_of_a_catalog_keeps_commits_apart(
    table: PaimonTable, location: str, lock: bool | None, served: bool
) -> None:
    """By default Paimon's catalogs take it on object stores. Without it nothing is deleted either: what no snapshot
    names may be all that is left of a commit that was replaced. No other store was tried.
    """
    catalog = HiveCatalog(type="hive", uri="thrift://hms:9083", lock=lock)
    there = replace(registered(table), location=location, catalog=catalog)
    found = blockers(there, facts_of(table))
    assert ["renaming a file" in one.reason for one in found] == [True] * (not served)
    for service in PAIMON.services:
        assert any(one.concerns(service) for one in found) is not served


# Rows that readers do not see before a compaction.

HIDING = [
    {"deletion-vectors.enabled": "true"},
    {"merge-engine": "first-row"},
    {"changelog-producer": "lookup"},
    {"changelog-producer": "full-compaction"},
]


def made(tmp_path: Path, options: dict[str, str]) -> tuple[PaimonTable, ManualClock]:
    clock = ManualClock()
    return PaimonTable(tmp_path / "t", clock=clock, options={"bucket": "1", "write-only": "true", **options}), clock


@pytest.mark.parametrize(
    ("options", "hides"),
    [*((options, True) for options in HIDING), ({}, False), ({"merge-engine": "partial-update"}, False)],
    ids=str,
)
def test_the_first_write_after_a_compaction_tells_since_when_rows_are_hidden(
    tmp_path: Path, options: dict[str, str], hides: bool
) -> None:
    """A compaction shows all of them, and the next write hides its own. Other readers see level 0."""
    table, clock = made(tmp_path, options)
    assert view_of(table).unseen_since == {}
    first = clock.now()
    table.append()
    clock.advance(timedelta(minutes=5))
    table.append()
    assert view_of(table).unseen_since == ({Service.COMPACTION: first} if hides else {})
    table.compact()
    assert view_of(table).unseen_since == {}
    clock.advance(timedelta(minutes=5))
    table.append()
    assert view_of(table).unseen_since == ({Service.COMPACTION: clock.now()} if hides else {})


def test_what_a_compaction_has_left_out_is_hidden_since_then_at_least(tmp_path: Path) -> None:
    table, clock = made(tmp_path, HIDING[0])
    table.append(table.file(p=1), table.file(p=2))
    clock.advance(timedelta(minutes=5))
    table.compact(p=1)
    at = clock.now()
    clock.advance(timedelta(minutes=5))
    assert view_of(table).unseen_since == {Service.COMPACTION: at}


@pytest.mark.parametrize("user", ["lakewarden-1.manifests", "a-procedure"])
def test_an_archive_shows_no_row(tmp_path: Path, user: str) -> None:
    """It merges manifests alone, although its snapshot has the kind of a compaction."""
    table, clock = made(tmp_path, HIDING[0])
    table.append()
    first = clock.now()
    clock.advance(timedelta(hours=5))
    table.commit([], kind="COMPACT", user=user, merging=True)
    assert view_of(table).unseen_since == {Service.COMPACTION: first}
