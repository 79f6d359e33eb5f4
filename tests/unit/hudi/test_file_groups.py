"""How full a table's file groups are, and how small its files, as its active timeline tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi.service_options import ClusteringOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Backlog
from tests.support.hudi_look import made, seen
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
