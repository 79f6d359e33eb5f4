"""How full a table's file groups are, and how small its files, as its active timeline tells."""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.indexes import file_groups as counting
from lakewarden.planners.formats.hudi.options.service_options import ClusteringOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Backlog
from tests.support.hudi_look import look, made, seen
from tests.support.hudi_table import HudiTable, base_file, commit_content, log_file

MIB = 2**20


def fullest(table: HudiTable, service: Service = Service.COMPACTION) -> tuple[int | None, int | None]:
    """Return log files and log bytes of the fullest file group."""
    backlog = seen(table).backlogs[service]
    return backlog.log_files, backlog.log_bytes


def small_files(table: HudiTable, *policies: Service, options: ClusteringOptions | None = None) -> int | None:
    return seen(table, *policies, options=options).backlogs[Service.CLUSTERING].small_files


def compact(table: HudiTable, *groups: str) -> str:
    """Compact these file groups of partition p0."""
    time = table.plan_compaction()
    stats = {"p0": [base_file(group, time) for group in groups]}
    table.complete(time, "compaction", commit_content(stats, operation="COMPACT"))
    return time


@pytest.mark.parametrize("version", [6, 8, 9])
def test_the_log_files_since_a_groups_last_compaction_are_counted(tmp_path: Path, version: int) -> None:
    """Of the group that has most of them; layout 1 names them after their slice, layout 2 after their commit."""
    table = made(tmp_path, version=version)
    first = table.write({"p0": [base_file("a", "1"), base_file("b", "1")]})
    slices = {"a": first, "b": first}
    for number in range(4):
        if number == 2:
            slices["a"] = compact(table, "a")
        time = table.begin_write()
        names = {group: f"{slice_}{number}" if version >= 8 else slice_ for group, slice_ in slices.items()}
        stats = [log_file(group, time if version >= 8 else slices[group], size=100) for group in names]
        for stat in stats:
            stat["path"] = stat["path"].replace(".log.1", f".log.{number}")
        table.commit_write(time, content=commit_content({"p0": stats}))
    assert fullest(table) == (4, 400)
    compact(table, "b")
    assert fullest(table) == (2, 200)
    compact(table, "a")
    assert fullest(table) == (0, 0)


def test_a_log_file_that_grew_counts_once(tmp_path: Path) -> None:
    """Layout 1 appends to a log file where the file system can; the newest commit knows its size."""
    table = made(tmp_path, version=6)
    for size in (100, 250):
        table.write({"p0": [log_file("a", "20260101000000000", size=size)]})
    assert fullest(table) == (1, 250)


def test_a_write_that_ended_after_the_compactions_request_is_not_merged(tmp_path: Path) -> None:
    """By completion time, as Hudi slices files in layout 2."""
    table = made(tmp_path)
    write = table.begin_write()
    plan = table.plan_compaction()
    table.commit_write(write, content=commit_content({"p0": [log_file("a", write)]}))
    table.complete(plan, "compaction", commit_content({"p0": [base_file("a", plan)]}, operation="COMPACT"))
    assert fullest(table) == (1, 100)


@pytest.mark.parametrize("version", [6, 9])
def test_a_log_compaction_leaves_one_file_to_itself_and_all_to_a_compaction(tmp_path: Path, version: int) -> None:
    """The merged log files stay where they are until a compaction and a clean."""
    table = made(tmp_path, version=version)
    slice_ = table.write({"p0": [base_file("a", "1")]})
    for number in range(3):
        log = log_file("a", f"2026010100000000{number}" if version >= 8 else slice_)
        log["path"] = log["path"].replace(".log.1", f".log.{number + 1}")
        table.write({"p0": [log]})
    merge = table.next_time()
    table.put(f"{merge}.logcompaction.requested")
    merged = log_file("a", merge if version >= 8 else slice_, size=280)
    merged["path"] = merged["path"].replace(".log.1", ".log.9")
    table.complete(merge, "logcompaction", commit_content({"p0": [merged]}, operation="LOG_COMPACT"))
    assert fullest(table) == (4, 580)
    assert fullest(table, Service.LOG_COMPACTION) == (1, 280)
    assert seen(table).backlogs[Service.LOG_COMPACTION].commits == 0


def test_file_groups_that_were_replaced_are_gone(tmp_path: Path) -> None:
    """By a clustering, an insert overwrite or a deletion of partitions."""
    table = made(tmp_path)
    table.write({"p0": [base_file("a", "1"), log_file("b", "1"), base_file("c", "1")]})
    table.write({"p0": [base_file("d", "2")]}, action="replacecommit", replaced={"p0": ["a", "b"]})
    assert fullest(table) == (0, 0)
    assert small_files(table) == 2


def test_a_base_file_is_small_below_the_clusterings_own_limit_or_else_hudis(tmp_path: Path) -> None:
    """And only the newest of its group counts."""
    table = made(tmp_path)
    sizes = {"a": 10 * MIB, "b": 99 * MIB, "c": 100 * MIB, "d": 200 * MIB}
    table.write({"p0": [base_file(group, "1", size=size) for group, size in sizes.items()]})
    assert small_files(table) == 2
    options = ClusteringOptions(small_file_limit="50MiB")
    assert small_files(table, Service.CLUSTERING, options=options) == 1
    table.write({"p0": [base_file("a", "2", size=120 * MIB)]})
    assert small_files(table) == 1


@pytest.mark.parametrize("version", [6, 9])
def test_rewrites_are_counted_since_a_service_last_completed(tmp_path: Path, version: int) -> None:
    """A clean that runs after each compaction instead of beside it is due by them."""
    table = made(tmp_path, version=version)
    written = table.write({"p0": [base_file("a", "1")]})
    assert backlog(table, Service.CLEAN).rewrites == 0
    compact(table, "a")
    assert backlog(table, Service.CLEAN).rewrites == 1
    table.complete_clean(table.plan_clean(), seen=written)
    assert backlog(table, Service.CLEAN).rewrites == 0
    compact(table, "a")
    assert backlog(table, Service.CLEAN).rewrites == 1


def test_a_rewrite_that_ends_after_the_cleans_plan_counts(tmp_path: Path) -> None:
    """The clean cannot have removed what it replaced."""
    table = made(tmp_path)
    written = table.write({"p0": [base_file("a", "1")]})
    plan = table.plan_compaction()
    table.complete_clean(table.plan_clean(), seen=written)
    table.complete(plan, "compaction", b"{}")
    assert backlog(table, Service.CLEAN).rewrites == 1


def backlog(table: HudiTable, service: Service) -> Backlog:
    return seen(table).backlogs[service]


def test_services_without_a_meaning_have_no_backlog_and_their_policies_are_mistakes(tmp_path: Path) -> None:
    """Log services on copy-on-write, ttl without partitions: said where it is configured, silent where it is not."""
    table = made(tmp_path, kind="COPY_ON_WRITE", properties={"hoodie.table.partition.fields": ""})
    table.write({"": [base_file("a", "1")]}, action="commit")
    wrong = {Service.COMPACTION, Service.LOG_COMPACTION, Service.TTL}
    assert wrong.isdisjoint(seen(table).backlogs)
    assert seen(table).hindrances == ()
    hindrances = seen(table, *wrong).hindrances
    assert {service for hindrance in hindrances for service in hindrance.services} == wrong
    assert {hindrance.remedy for hindrance in hindrances} == {f"remove its {service} policy" for service in wrong}


@pytest.mark.parametrize("version", [6, 9])
def test_a_file_that_a_commit_wrote_is_remembered_in_few_bytes(tmp_path: Path, version: int) -> None:
    """It took 372: 300 commits of 20,000 files were 2.2 GB for one table."""
    table = made(tmp_path, version=version)
    for commit in range(5):
        files = [base_file(f"group-{n}", f"{commit}") for n in range(2000)]
        logs = [log_file(f"group-{n}", f"2026010100000{commit}000") for n in range(2000)]
        table.write({"p0": files[:1000], "p1": files[1000:], "p2": logs})
    look(table)  # what is made once is made
    gc.collect()
    tracemalloc.start()
    try:
        observation = look(table)
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert observation.view.backlogs[Service.CLUSTERING].small_files == 2000
    assert kept / 20_000 < 80


@given(
    commits=st.lists(
        st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, 2), st.booleans()), max_size=6), max_size=6
    )
)
def test_what_is_counted_is_what_files_in_objects_would_count(commits: list[list[tuple[str, int, bool]]]) -> None:
    """Each group's newest base file, and the log files since: by a model that keeps every name."""
    newest: dict[str, int] = {}
    logs: dict[str, set[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        table = made(Path(folder))
        for files in commits:
            time = table.begin_write()
            stats = []
            for group, size, is_log in files:
                stats.append((log_file if is_log else base_file)(group, time, size=size * MIB))
            table.commit_write(time, content=commit_content({"p0": stats}))
            for group, size, is_log in files:
                if not is_log:
                    newest[group] = size
                    logs[group] = set()
            for group, _, is_log in files:
                if is_log:
                    logs.setdefault(group, set()).add(time)
        options = ClusteringOptions(small_file_limit="2MiB", target_file_max_bytes="3MiB")
        assert small_files(table, Service.CLUSTERING, options=options) == sum(size < 2 for size in newest.values())
        assert fullest(table)[0] == max(map(len, logs.values()), default=0)


def test_of_more_groups_than_are_looked_at_one_in_so_many_stands_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six million files in one timeline must not need six million entries."""
    monkeypatch.setattr(counting, "_MOST_GROUPS", 500)
    table = made(tmp_path)
    table.write({"p0": [base_file(f"group-{n}", "1") for n in range(4000)]})
    counted = small_files(table)
    assert counted is not None
    assert 3000 < counted < 5000
