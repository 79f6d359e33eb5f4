"""Which branches and tags expire: those to which their owner gave an age, as Iceberg's own action lets them go."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.deletion.expiry import Expiry, expirable
from lakewarden.planners.formats.iceberg.deletion.refs import LostRefs, lost_refs, named
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import MAIN, Ref, TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_history import DAY, History, histories, names_kept_by_iceberg
from tests.support.iceberg.iceberg_table import IcebergTable
from tests.support.values import NOW

NO_OUTAGE: dict[str, Any] = {"longest_outage": "0s", "flink_restores": "0s"}
TIMES = st.sampled_from([NOW - 30 * DAY, NOW - 10 * DAY, NOW, NOW + 60 * DAY])


def expiry(
    metadata: TableMetadata,
    now: datetime = NOW,
    *,
    among: list[tuple[str, int]] | None = None,
    table: dict[str, Any] = NO_OUTAGE,
    **clean: Any,
) -> Expiry:
    """Return what may expire with these options of clean and of the table."""
    options = CleanOptions.model_validate({"max_snapshot_age": "0s", **clean})
    return expirable(metadata, options, IcebergTableOptions.model_validate(table), now, among=among)


def aged(age: timedelta | None, *, flink: bool = False) -> History:
    """Return a table with a branch of two snapshots, the younger of which is ten days old, and a tag on the older."""
    history = History(at=NOW - 11 * DAY)
    history.commit()
    history.commit("audit")
    history.point("v1", 2, is_branch=False)
    history.at += DAY
    history.commit("audit", checkpoint=("job", "op", 7) if flink else None)
    history.at = NOW - DAY
    history.commit()
    for name in ("audit", "v1"):
        history.refs[name] = replace(history.refs[name], max_ref_age=age)
    return history


@given(history=histories(flink=False), now=TIMES)
def test_without_flink_a_name_goes_when_icebergs_own_action_would_remove_it(history: History, now: datetime) -> None:
    """Names that say nothing stay, and main does whatever it says."""
    metadata = history.metadata()
    found = set(expiry(metadata, now).refs)
    assert found == {*metadata.refs} - {*names_kept_by_iceberg(metadata, now)}
    assert MAIN not in {ref.name for ref in found}


@given(history=histories(), now=TIMES, outage=st.sampled_from(["0s", "3d"]), restores=st.sampled_from(["0s", "7d"]))
def test_no_name_goes_that_iceberg_would_keep(history: History, now: datetime, outage: str, restores: str) -> None:
    """Outages and Flink's jobs only ever keep more."""
    metadata = history.metadata()
    found = expiry(metadata, now, table={"longest_outage": outage, "flink_restores": restores})
    assert not {*found.refs} & {*names_kept_by_iceberg(metadata, now)}


def test_a_name_takes_the_snapshots_along_that_it_alone_kept() -> None:
    """In one commit, as Iceberg does it. What main has stays by main's own rule."""
    metadata = aged(5 * DAY).metadata()
    found = expiry(metadata)
    assert [ref.name for ref in found.refs] == ["audit", "v1"]
    assert found.ids == (1, 2, 3)
    assert expiry(metadata, expire_refs=False).ids == (1,)
    assert expiry(aged(None).metadata()).refs == ()


def test_a_name_is_as_old_as_its_snapshot() -> None:
    """A tag that was made today of an old snapshot is old at once: its owner gives it an age beyond that."""
    [only] = expiry(aged(timedelta(days=10, hours=12)).metadata()).refs
    assert only.name == "v1"


def test_the_tables_own_age_is_that_of_names_that_say_nothing() -> None:
    """`history.expire.max-ref-age-ms`, which nobody has by default; what cannot be read expires nothing."""
    history = aged(None)
    history.refs["v1"] = replace(history.refs["v1"], max_ref_age=90 * DAY)
    of_all = {"history.expire.max-ref-age-ms": str(5 * 86_400_000)}
    assert [ref.name for ref in expiry(history.metadata(of_all)).refs] == ["audit"]
    with pytest.raises(PermanentError, match=r"history\.expire\.max-ref-age-ms is 'soon'"):
        expiry(history.metadata({"history.expire.max-ref-age-ms": "soon"}))


def test_only_names_that_were_chosen_before_go_and_the_others_keep_their_snapshots() -> None:
    """A plan names them with their snapshots: one that was moved since is another one."""
    metadata = aged(5 * DAY).metadata()
    found = expiry(metadata, among=[("audit", 2), ("v1", 2)])
    assert [named(ref) for ref in found.refs] == [("v1", 2)]
    assert 3 not in found.ids


def test_a_branch_on_which_a_flink_job_may_be_restored_stays_and_explain_says_so() -> None:
    """The job finds its last commit by way of the branch. Where no job is at work, its owner says so."""
    metadata = aged(5 * DAY, flink=True).metadata()
    found = expiry(metadata)
    assert [ref.name for ref in found.refs] == ["v1"]
    said = "branch 'audit' stays although its max-ref-age-ms is over: a sink that has committed to it may be"
    assert any(one.startswith(said) for one in found.kept)
    at_rest = {**NO_OUTAGE, "keep_last_flink_commit": False}
    assert [ref.name for ref in expiry(metadata, table=at_rest).refs] == ["audit", "v1"]


def test_a_branch_that_may_yet_be_published_stays_for_the_longest_outage() -> None:
    """A branch is written to, and then main is moved to it: within the outage that its owner declares."""
    metadata = aged(5 * DAY).metadata()
    found = expiry(metadata, table={"longest_outage": "9d", "flink_restores": "0s"})
    assert [ref.name for ref in found.refs] == ["audit", "v1"]
    found = expiry(metadata, table={"longest_outage": "12d", "flink_restores": "0s"})
    assert found.refs == ()
    assert "tag 'v1' stays although its max-ref-age-ms is over: it is younger than longest_outage (12d)" in found.kept
    assert found.next_at == NOW + DAY + timedelta(milliseconds=1)


# Names that an expiry has taken with it are found in the log of earlier versions.


STORAGE = LocalStorage()


def logged(table: IcebergTable, *, most: int = 100) -> None:
    """Let the newest version name the versions before it, as writers do."""
    versions = [table.metadata / f"v{one}.metadata.json" for one in range(1, table.metadata_version)]
    log = [{"timestamp-ms": 0, "metadata-file": str(one)} for one in versions[-most:]]
    raw = {**json.loads(table.metadata_file.read_bytes()), "metadata-log": log}
    table.metadata_file.write_text(json.dumps(raw))


def tag(table: IcebergTable, name: str, snapshot: int) -> None:
    """Make a tag, or move it."""
    table.refs[name] = {"snapshot-id": snapshot, "type": "tag", "max-ref-age-ms": 7}
    table.save()


def expire(table: IcebergTable, *snapshots: int) -> None:
    """Expire snapshots as a REST server does it: it removes what stands for them."""
    table.refs = {name: ref for name, ref in table.refs.items() if ref["snapshot-id"] not in snapshots}
    for one in snapshots:
        table.snapshots.pop(one)
    table.save()


def lost(table: IcebergTable, *expired: int, chosen: Sequence[tuple[str, int]] = (), most: int = 100) -> LostRefs:
    """Return what was lost with the expired snapshots."""
    logged(table, most=most)
    return lost_refs(expired, chosen, read_table(str(table.metadata_file), STORAGE), STORAGE)


def test_a_name_of_the_version_before_the_expiry_is_lost(tmp_path: Path) -> None:
    """Its retention is known, too. Later commits of writers do not hide it."""
    table = IcebergTable(tmp_path / "trips")
    old, _ = table.append(), table.append()
    tag(table, "audited", old)
    before = str(table.metadata_file)
    expire(table, old)
    for _ in range(3):
        table.append()
    found = lost(table, old)
    assert found.before == before
    assert [(one.name, one.snapshot, one.is_branch) for one in found.refs] == [("audited", old, False)]
    assert found.refs[0].max_ref_age is not None


def test_a_name_that_was_to_go_or_is_there_again_is_not_lost(tmp_path: Path) -> None:
    """A name that was chosen for another snapshot is lost."""
    table = IcebergTable(tmp_path / "trips")
    old, older, head = table.append(), table.append(), table.append()
    for name in ("chosen", "again", "moved"):
        tag(table, name, old)
    expire(table, old, older)
    tag(table, "again", head)
    found = lost(table, old, older, chosen=[("chosen", old), ("moved", older)])
    assert [one.name for one in found.refs] == ["moved"]


def test_a_log_that_does_not_reach_the_expiry_does_not_tell(tmp_path: Path) -> None:
    """The table keeps few earlier versions, or one is deleted."""
    table = IcebergTable(tmp_path / "trips")
    old, _ = table.append(), table.append()
    expire(table, old)
    before = table.metadata / f"v{table.metadata_version - 1}.metadata.json"
    table.append()
    table.append()
    assert lost(table, old, most=2) == LostRefs(before=None)
    assert lost(table, old, most=3) == LostRefs(before=str(before))
    before.unlink()
    assert lost(table, old, most=3) == LostRefs(before=None)


STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "tag", "untag"]), st.integers(0, 2), st.integers(0, 5)), max_size=8
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(before=STEPS, after=STEPS, expired=st.integers(1, 3))
def test_exactly_the_names_that_the_expiry_took_are_lost(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[str, int, int]],
    after: list[tuple[str, int, int]],
    expired: int,
) -> None:
    """This holds for whatever was committed before and after it."""
    table = IcebergTable(tmp_path_factory.mktemp("t") / "trips")
    ids = [table.append() for _ in range(4)]

    def take(step: str, name: int, of: int) -> None:
        there = sorted(table.snapshots)
        if step == "append":
            table.append()
        elif step == "tag":
            tag(table, f"tag-{name}", there[of % len(there)])
        elif table.refs.pop(f"tag-{name}", None):
            table.save()

    for one in before:
        take(*one)
    gone = ids[:expired]
    taken = {name for name, ref in table.refs.items() if ref["snapshot-id"] in gone}
    expire(table, *gone)
    for one in after:
        take(*one)
    names = {ref.name for ref in _refs(lost(table, *gone))}
    assert names == taken - table.refs.keys()


def _refs(found: LostRefs) -> tuple[Ref, ...]:
    assert found.before is not None
    return found.refs
