from __future__ import annotations
import pytest
from lakewarden.executors.contract import Refused, Step, Ended
from lakewarden.planners.model.instant import Service
from tests.integration.executors import test_hudi_resizing as base
from tests.integration.executors.test_hudi_resizing import *  # noqa
from tests.integration.executors.test_hudi_non_blocking import *  # noqa
from tests.integration.executors.test_hudi_buckets import test_buckets_that_grew_are_split_between_two_writes, table_of

pytestmark = pytest.mark.spark
RESIZE = SPLIT
killed = test_buckets_whose_resizing_was_killed_are_resized_by_the_next_run
del test_buckets_whose_resizing_was_killed_are_resized_by_the_next_run


def rows(t):
    got = t.spark.read.format("hudi").load(t.address).select("order_id", "note").collect()
    d = {}
    for r in got:
        d.setdefault(r.order_id, []).append(r.note)
    dup = sum(len(v) > 1 for v in d.values())
    stale = sum(max(v) != t.expected.get(k) and t.expected.get(k) not in v for k, v in d.items())
    missing = len(set(t.expected) - set(d))
    return f"rows={len(got)} dup={dup} stale={stale} missing={missing} of {len(t.expected)} rightly={ {k: v[0] for k, v in d.items()} == t.expected and not dup }"


def show(t, what):
    try:
        print("=====", what, rows(t), flush=True)
    except Exception as e:
        print("=====", what, "FAILED", str(e)[:300], flush=True)
        print(
            "   files",
            len(t.data_files()),
            "timeline",
            [n for n in t.timeline("2*") if "clustering" in n or "replace" in n],
        )


def after(driver, t, tag):
    t.add("p0", *KEYS[::2])
    show(t, tag + ": a write of half")
    print("resize", driver.carry_out(t, Service.CLUSTERING, **RESIZE))
    show(t, tag + ": resized again")
    t.add("p0", *KEYS[::3])
    show(t, tag + ": a write of a third")
    print("comp", driver.carry_out(t, Service.COMPACTION))
    show(t, tag + ": compacted")
    t.add("p0", *KEYS[::5])
    show(t, tag + ": a write of a fifth")
    print("clean", driver.carry_out(t, Service.CLEAN, policy="KEEP_LATEST_COMMITS", commits_retained=1))
    show(t, tag + ": cleaned")


def test_archived(driver: Driver, table: Hashed) -> None:
    table.conf = {**table.conf, "hoodie.metadata.compact.max.delta.commits": "1"}
    run = driver.submit(table, Service.CLUSTERING, **RESIZE)
    driver.climb(run, to=Step.COMMIT)
    table.add("p0", *KEYS)
    [plan] = table.timeline("*.clustering.requested")
    driver.pool.answer(run, Step.COMMIT, Refused(reason="x"))
    print(driver.next(run, Ended))
    show(table, "R4 run ended")
    from lakewarden.executors.programs.hudi.client import HudiClient
    from lakewarden.planners.formats.hudi.options import HudiTableOptions

    client = HudiClient(
        table.spark,
        str(table.path),
        HudiTableOptions.model_validate({"lock": dict(table.lock)}),
        {},
        indexes=table.indexes(),
    )
    print("withdrawn", client.withdraw(plan.partition(".")[0]))
    client.close()
    for n in range(3):
        table.add("p0", *KEYS)
        print("comp", driver.carry_out(table, Service.COMPACTION))
        print("clean", driver.carry_out(table, Service.CLEAN, policy="KEEP_LATEST_COMMITS", commits_retained=1))
        show(table, f"R4 cleaned {n}")
        print("arch", driver.carry_out(table, Service.ARCHIVE, keep_min_commits=2, keep_max_commits=3))
        show(table, f"R4 archived {n}")
        print(table.timeline("2*"))
    table.add("p0", *KEYS[::2])
    show(table, "R4 written")
    print("comp", driver.carry_out(table, Service.COMPACTION))
    show(table, "R4 compacted")
    table.add("p0", *KEYS[::3])
    show(table, "R4 written")


test_killed = killed
