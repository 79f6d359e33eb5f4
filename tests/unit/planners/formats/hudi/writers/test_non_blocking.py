"""Writers without blocking are declared by the owner. The declaration is compared with the names of their buckets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.formats.hudi.writers.non_blocking import Names, told_by
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import WriterEngine
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.hudi_look import made
from tests.support.hudi.hudi_table import HudiTable, log_file

SHARED = "00000003-0000-0000-0000-000000000000-0"
BUCKET = "00000003-6a0e-4a1c-9b52-3f8f6e5e6b7a-0"
ORDINARY = "f3a1c0de-6a0e-4a1c-9b52-3f8f6e5e6b7a-0"
DECLARED = HudiTableOptions(writers="none", concurrency="non_blocking")
UNDECLARED = HudiTableOptions(writers="none")
POLICY = Policy(trigger=NumCommits(at_least=1))
COMPACTED = {Service.COMPACTION: POLICY}


def _seen(table: HudiTable, options: HudiTableOptions, policies: Mapping[Service, Policy] = COMPACTED) -> TableView:
    location, now = str(table.folder), table.clock.now() + timedelta(minutes=2)
    registered = Table(id=TableId("trips"), format="hudi", location=location, options=options, policies=policies)
    return HUDI.observe(registered, storage_for(location), None, now=now).view


def _beside_a_write(folder: Path, *groups: str, version: int = 9) -> tuple[HudiTable, str, str]:
    """Return a table whose newest commits wrote to these file groups, with a write in flight and a later plan."""
    table = made(folder, version=version)
    for group in groups:
        table.write({"p0": [log_file(group, "1")]})
    write = table.begin_write()
    return table, write, table.plan_compaction()


def _waits_for(view: TableView, plan: str) -> list[str]:
    return [one.time for one in HUDI.endangered(view, Service.COMPACTION, step=Step.COMMIT, instant=plan)]


@pytest.mark.parametrize("step", list(Step))
@pytest.mark.parametrize("groups", [(SHARED,), (SHARED, BUCKET), (BUCKET, SHARED)], ids=["new", "older", "newer"])
def test_a_compaction_waits_for_no_write_where_writers_do_not_block(
    tmp_path: Path, step: Step, groups: tuple[str, ...]
) -> None:
    """None of them checks a conflict. Buckets that were there before them keep their names."""
    table, _, plan = _beside_a_write(tmp_path, *groups)
    view = _seen(table, DECLARED)

    assert HUDI.endangered(view, Service.COMPACTION, step=step, instant=None if step is Step.PLAN else plan) == ()
    assert HUDI.awaited(view, Service.COMPACTION, step=step, instant=plan) is None
    assert view.writers.non_blocking
    assert view.warnings == ()


@pytest.mark.parametrize(
    ("groups", "version", "why"),
    [
        ((ORDINARY,), 9, "are not buckets"),
        ((SHARED, ORDINARY), 9, "are not buckets"),
        ((BUCKET,), 9, "nothing shows it"),
        ((SHARED,), 6, "version 8 or later"),
    ],
)
def test_what_is_declared_is_not_believed_against_what_is_found(
    tmp_path: Path, groups: tuple[str, ...], version: int, why: str
) -> None:
    """Such writers write to buckets alone. Before version 8 log files have no completion times."""
    table, write, plan = _beside_a_write(tmp_path, *groups, version=version)
    view = _seen(table, DECLARED)

    assert _waits_for(view, plan) == [write]
    assert not view.writers.non_blocking
    [warning] = view.warnings
    assert why in warning
    assert "emove it from the table's options" in warning


def test_what_is_found_is_told_and_not_acted_upon(tmp_path: Path) -> None:
    """Optimistic writers may have taken over the buckets. Only the owner knows all writers."""
    table, write, plan = _beside_a_write(tmp_path, SHARED)
    view = _seen(table, UNDECLARED)

    assert _waits_for(view, plan) == [write]
    [warning] = view.warnings
    assert "options: {concurrency: non_blocking}" in warning


def test_a_table_without_writes_is_as_its_owner_says(tmp_path: Path) -> None:
    """Nothing contradicts the owner yet."""
    view = _seen(made(tmp_path, version=9), DECLARED)

    assert view.writers.non_blocking
    assert view.warnings == ()


@pytest.mark.parametrize(("options", "groups"), [(DECLARED, (BUCKET,)), (UNDECLARED, (SHARED,))])
@pytest.mark.parametrize(
    ("service", "why"), [(Service.CLUSTERING, "must not be clustered"), (Service.TTL, "the same names again")]
)
def test_buckets_of_writers_without_blocking_are_not_clustered_and_do_not_expire(
    tmp_path: Path, options: HudiTableOptions, groups: tuple[str, ...], service: Service, why: str
) -> None:
    """Their index is a simple one, both by the declaration and by the names. They would give the buckets of a deleted
    partition their old names, and Hudi would hide what they write.
    """
    table, _, _ = _beside_a_write(tmp_path, *groups)
    view = _seen(table, options, {service: POLICY})

    assert [one.services for one in view.blockers] == [frozenset({service})]
    assert why in view.blockers[0].reason


def test_what_never_runs_beside_them_is_told_before_the_start() -> None:
    """An owner who declares them and asks for a clustering or a ttl is told by check-config."""
    policies = dict.fromkeys((Service.COMPACTION, Service.CLUSTERING, Service.TTL), POLICY)
    table = Table(id=TableId("t"), format="hudi", location="/t", options=DECLARED, policies=policies)

    told = [one.key for one in HUDI.contradictions(table) if one.blocks]

    assert told == ["services.clustering", "services.ttl"]


@pytest.mark.parametrize(
    ("names", "told"),
    [({SHARED, BUCKET}, Names.SHARED), ({BUCKET}, Names.OF_BUCKETS), ({SHARED, ORDINARY}, Names.OTHERS), (set(), None)],
)
def test_names_tell_which_writers_made_them(names: set[str], told: Names | None) -> None:
    """One that is no bucket proves that a writer blocks."""
    assert told_by(names) is told


def test_an_index_that_hudi_refuses_beside_it_cannot_be_declared() -> None:
    """It needs a simple bucket index (`HoodieWriteConfig.Builder.validate`)."""
    with pytest.raises(ValidationError, match="bucket_index"):
        HudiTableOptions.model_validate(
            {"concurrency": "non_blocking", "bucket_index": {"engine": "consistent_hashing"}}
        )


@pytest.mark.parametrize("engine", HUDI.writer_engines, ids=str)
def test_writers_are_told_the_mode_that_is_declared(engine: WriterEngine) -> None:
    """One writer in another mode makes conflicts that are not checked. Their tables are never clustered."""
    lock = {"provider": "zookeeper", "url": "zk:2181", "base_path": "/hudi", "lock_key": "t"}
    for mode in ("optimistic", "non_blocking"):
        options = HudiTableOptions.model_validate({"lock": lock, "concurrency": mode})
        policies = {Service.CLUSTERING: POLICY}
        table = Table(id=TableId("t"), format="hudi", location="/t", options=options, policies=policies)
        told = {one.key: one.value for one in HUDI.writer_options(table, engine=engine, hook_url="http://l/h")}
        assert told["hoodie.write.concurrency.mode"] == f"{mode}_concurrency_control"
        assert (told.get("hoodie.index.bucket.engine") == "SIMPLE") == (mode == "non_blocking")
        assert ("hoodie.write.lock.conflict.resolution.strategy" in told) == (mode == "optimistic")
