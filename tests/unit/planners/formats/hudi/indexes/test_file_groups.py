"""How full a table's file groups are, and how small its files, as its active timeline shows them."""

from __future__ import annotations

import gc
import random
import tempfile
import tracemalloc
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.indexes import file_groups as counting
from lakewarden.planners.formats.hudi.indexes.file_groups import named_after_buckets, shown_beside
from lakewarden.planners.formats.hudi.options.service_options import CleanOptions, ClusteringOptions
from lakewarden.planners.formats.hudi.options.table_options import BucketIndex
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Backlog
from lakewarden.planners.storage import LocalStorage
from tests.support.hudi.hudi_look import look, made, seen
from tests.support.hudi.hudi_table import HudiTable, base_file, commit_content, log_file

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
    """The fullest group counts. Layout 1 names log files after their slice, layout 2 after their commit."""
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
    """Layout 1 appends to a log file where the file system can. The newest commit knows its size."""
    table = made(tmp_path, version=6)
    for size in (100, 250):
        table.write({"p0": [log_file("a", "20260101000000000", size=size)]})
    assert fullest(table) == (1, 250)


def test_a_write_that_ended_after_the_compactions_request_is_not_merged(tmp_path: Path) -> None:
    """Hudi slices files in layout 2 by completion time."""
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
    """They were replaced by a clustering, an insert overwrite or a deletion of partitions."""
    table = made(tmp_path)
    table.write({"p0": [base_file("a", "1"), log_file("b", "1"), base_file("c", "1")]})
    table.write({"p0": [base_file("d", "2")]}, action="replacecommit", replaced={"p0": ["a", "b"]})
    assert fullest(table) == (0, 0)
    assert small_files(table) == 2


def test_a_base_file_is_small_below_the_clusterings_own_limit_or_else_hudis(tmp_path: Path) -> None:
    """Only the newest base file of its group counts."""
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
    """A clean that runs after each compaction, and not at the same time, is due by them."""
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
    """Log services on copy-on-write tables and ttl without partitions are reported where they are configured, and
    nowhere else.
    """
    table = made(tmp_path, kind="COPY_ON_WRITE", properties={"hoodie.table.partition.fields": ""})
    table.write({"": [base_file("a", "1")]}, action="commit")
    wrong = {Service.COMPACTION, Service.LOG_COMPACTION, Service.TTL}
    assert wrong.isdisjoint(seen(table).backlogs)
    assert seen(table).blockers == ()
    blockers = seen(table, *wrong).blockers
    assert {service for blocker in blockers for service in blocker.services} == wrong
    assert {blocker.remedy for blocker in blockers} == {f"remove its {service} policy" for service in wrong}


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
    """A model that keeps every name counts each group's newest base file, and the log files since."""
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


@pytest.mark.parametrize("version", [6, 9])
def test_what_a_compaction_would_read_is_known_before_it_runs(tmp_path: Path, version: int) -> None:
    """Its base files and their log files count. A file group without log files does not."""
    table = made(tmp_path, version=version)
    first = table.write({"p0": [base_file("a", "1", size=1000), base_file("b", "1", size=5000)]})
    for number in range(2):
        log = log_file("a", f"2026010100000000{number}" if version >= 8 else first, size=100)
        log["path"] = log["path"].replace(".log.1", f".log.{number + 1}")
        table.write({"p0": [log]})
    found = backlog(table, Service.COMPACTION)
    assert (found.files, found.bytes, found.file_groups, found.writes) == (3, 1200, 1, 1)
    assert found.plan_bytes == 200


def test_what_a_clean_would_delete_is_known_before_it_runs(tmp_path: Path) -> None:
    """A file goes when the commit that put it out of use is older than all that are kept. A new write counts for none,
    and what an earlier clean has taken does not count again.
    """
    table = made(tmp_path)
    policy = CleanOptions(commits_retained=2)
    times = [table.write({"p0": [base_file("a", str(number), size=100 + number)]}) for number in range(6)]
    found = seen(table, Service.CLEAN, options=policy).backlogs[Service.CLEAN]
    assert (found.versions, found.deletes, found.deletes_bytes) == (4, 3, 100 + 101 + 102)
    table.complete_clean(table.plan_clean(), seen=times[-1], retained=times[4])
    found = seen(table, Service.CLEAN, options=policy).backlogs[Service.CLEAN]
    assert (found.versions, found.deletes) == (0, 0)


def test_the_files_of_a_replaced_file_group_go_with_a_clean(tmp_path: Path) -> None:
    """A clustering leaves every file of its input behind, log files too. Its own new files stay."""
    table = made(tmp_path)
    table.write({"p0": [base_file("a", "1", size=1000), log_file("b", "1", size=10)]})
    table.write({"p0": [base_file("d", "2")]}, action="replacecommit", replaced={"p0": ["a", "b"]})
    for number in range(3):
        table.write({"p0": [base_file(f"new{number}", "3", size=1)]})
    found = seen(table, Service.CLEAN, options=CleanOptions(commits_retained=2)).backlogs[Service.CLEAN]
    assert (found.deletes, found.deletes_bytes) == (2, 1010)


# What a table shows of its writers' bucket index.

A_MILLION = st.integers(min_value=0, max_value=999_999)


def bucket_file(number: int, *, log: bool = False) -> str:
    """Name a file as Hudi does: the bucket's number in the place of the first eight letters of a UUID."""
    group = f"{number:08d}{str(uuid.UUID(int=number * 7919))[8:]}-0"
    return f".{group}_20260101000000000.log.1_0-1-2" if log else f"{group}_0-1-2_20260101000000000.parquet"


def chance_file(chance: uuid.UUID) -> str:
    return f"{chance}-0_0-1-2_20260101000000000.parquet"


@given(st.integers(min_value=0, max_value=9_999), st.booleans(), st.lists(st.uuids(version=4), max_size=20))
def test_one_file_of_a_low_bucket_is_enough(number: int, log: bool, others: list[uuid.UUID]) -> None:
    """The plan may have others, too: an insert of another index, or a bulk insert, may have written those."""
    assert named_after_buckets([bucket_file(number, log=log), *map(chance_file, others)])


@given(st.sets(A_MILLION, min_size=2, max_size=50))
def test_a_plan_of_high_buckets_alone_is_recognised(numbers: set[int]) -> None:
    """A partition of 10,000 buckets and more has such a plan."""
    assert named_after_buckets([bucket_file(number) for number in numbers])


def test_names_by_chance_are_no_buckets() -> None:
    """One in 43 names by chance begins with eight digits. The 100,000 names are always the same."""
    chance = random.Random(1)
    names = [f"{uuid.UUID(int=chance.getrandbits(128), version=4)}-0" for _ in range(100_000)]
    assert sum(name[:8].isdigit() for name in names) > 1000
    assert not any(named_after_buckets(names[start : start + 1000]) for start in range(0, len(names), 1000))
    assert not named_after_buckets([])


@pytest.mark.parametrize(
    ("folder", "index"),
    [
        ("consistent_hashing_metadata/p0", BucketIndex.CONSISTENT_HASHING),
        ("partition_bucket_index_meta/configs", BucketIndex.SIMPLE),
        (".", None),
        ("../other", None),
    ],
)
def test_metadata_beside_the_table_tells_the_index(tmp_path: Path, folder: str, index: BucketIndex | None) -> None:
    """Hudi keeps it below `.hoodie/.bucket_index`."""
    (tmp_path / ".hoodie" / ".bucket_index" / folder).mkdir(parents=True)
    assert shown_beside(str(tmp_path), LocalStorage()) is index
