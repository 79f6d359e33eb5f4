"""One look at a Paimon table: what it finds, what it costs, and what the next look need not read again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.planners.formats.paimon import PAIMON, PaimonFormat
from lakewarden.planners.formats.paimon.metadata import history
from lakewarden.planners.formats.paimon.observing import look as looked
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import InstantKind, Service
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import LocalStorage
from tests.support.paimon.paimon_look import CountingStorage, facts_of, look, observe, registered, view_of
from tests.support.paimon.paimon_table import ADD, DELETE, PaimonTable

HOUR = timedelta(hours=1)


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    return PaimonTable(tmp_path / "trips", clock=ManualClock())


@pytest.fixture
def append_table(tmp_path: Path) -> PaimonTable:
    return PaimonTable(tmp_path / "events", clock=ManualClock(), keyed=False, options={})


def clock_of(table: PaimonTable) -> ManualClock:
    assert isinstance(table.clock, ManualClock)
    return table.clock


def content(view: TableView) -> TableView:
    return replace(view, observed_at=view.observed_at.min)


def notes(view: TableView, service: Service = Service.COMPACTION) -> str:
    return "\n".join(view.notes[service])


def test_a_table_without_a_snapshot_is_a_table(table: PaimonTable) -> None:
    view = view_of(table)
    assert (view.name, view.kind, view.version) == ("trips", "primary key, fixed buckets", "3")
    assert view.timeline.instants == ()
    assert "nothing was ever committed" in view.at_rest[Service.COMPACTION].reason
    nowhere = replace(registered(table), location=f"{table.folder}/none")
    with pytest.raises(PermanentError, match=r"no Paimon table at .*<database>\.db/<table>"):
        PAIMON.token(nowhere, LocalStorage())


def test_each_snapshot_is_an_instant_by_the_kind_of_its_commit(table: PaimonTable) -> None:
    """APPEND and OVERWRITE are writes, COMPACT is a compaction, and ANALYZE makes statistics."""
    table.append()
    table.compact()
    table.commit([(ADD, table.file())], kind="OVERWRITE")
    table.commit([], kind="ANALYZE")
    instants = view_of(table).timeline.instants
    assert [(one.time, one.stands_for) for one in instants] == [
        ("0000000001", InstantKind.WRITE),
        ("0000000002", Service.COMPACTION),
        ("0000000003", InstantKind.WRITE),
        ("0000000004", Service.TABLE_STATS),
    ]
    assert [one.action for one in instants] == ["append", "compact", "overwrite", "analyze"]


def test_sorted_runs_are_the_files_of_level_0_and_the_other_levels(table: PaimonTable) -> None:
    """By bucket and partition; the fullest of them is named."""
    table.append(table.file(0), table.file(0), table.file(0, level=4), table.file(0, level=5), table.file(0, level=5))
    table.append(table.file(1, size=500))
    facts = facts_of(table)
    assert (facts.holdings.files, facts.holdings.level_0, facts.holdings.most_runs) == (6, 3, 4)
    assert (facts.holdings.pending, facts.holdings.pending_files) == (2, 6)
    view = view_of(table)
    assert "p=0/bucket-0: 4 sorted runs, 2 files of level 0" in notes(view)
    backlog = view.backlogs[Service.COMPACTION]
    assert (backlog.commits, backlog.files, backlog.file_groups) == (2, 6, 2)
    assert (backlog.log_files, backlog.log_bytes) == (2, 2000)


def test_a_compacted_table_rests(table: PaimonTable) -> None:
    """One sorted run a bucket leaves nothing to merge."""
    table.append(table.file(0), table.file(1))
    table.compact()
    view = view_of(table)
    assert Service.COMPACTION not in view.backlogs
    assert view.at_rest[Service.COMPACTION].reason == ("each of 2 buckets is one sorted run: there is nothing to merge")


def test_commits_are_counted_since_the_last_full_compaction(table: PaimonTable) -> None:
    """A compaction below the highest level is none; statistics are no commit of a writer."""
    table.append()
    clock_of(table).advance(HOUR)
    table.compact()
    full_at = table.clock.now()
    clock_of(table).advance(HOUR)
    table.append()
    table.append()
    table.compact(level=3)
    table.commit([], kind="ANALYZE")
    table.append()
    backlog = view_of(table).backlogs[Service.COMPACTION]
    assert (backlog.commits, backlog.commits_since_request, backlog.since) == (3, 1, full_at)
    assert "3 write commits since the last full compaction: it was snapshot 2" in notes(view_of(table))


def test_an_append_table_has_small_files_in_place_of_runs(append_table: PaimonTable) -> None:
    """They count in partitions that have enough of them for a compaction (compaction.min.file-num)."""
    append_table.append(*(append_table.file(0) for _ in range(5)), append_table.file(0, size=300 * 2**20))
    append_table.append(*(append_table.file(1) for _ in range(4)))
    view = view_of(append_table)
    backlog = view.backlogs[Service.COMPACTION]
    assert (backlog.small_files, backlog.files, backlog.file_groups, backlog.log_files) == (5, 5, 1, None)
    assert view.kind == "append, no buckets"
    append_table.alter(compaction__min__file_num="4")
    backlog = view_of(append_table).backlogs[Service.COMPACTION]
    assert (backlog.small_files, backlog.file_groups) == (9, 2)


def test_deletion_vectors_are_counted_and_hide_level_0(table: PaimonTable) -> None:
    """What a reader does not see before a compaction is said."""
    table.alter(deletion_vectors__enabled="true")
    old = table.file(0, level=5)
    table.append(old, table.file(0))
    table.delete_vectors({old.name: 3})
    table.append(table.file(0))
    view = view_of(table)
    assert "1 deletion vector in 1 index file, with 3 deleted rows" in notes(view)
    assert "readers do not see 2 files of level 0 before a compaction: at least those of snapshot 1, since" in notes(
        view
    )


def test_what_holds_snapshots_is_told(table: PaimonTable) -> None:
    """Tags and branches with their snapshots, consumers with their positions."""
    for _ in range(4):
        table.append()
    table.tag("daily", 2)
    table.branch("try")
    table.consume("dashboard", 3)
    view = view_of(table)
    assert "1 tag: daily (2)" in notes(view, Service.CLEAN)
    assert "1 branch: try (4)" in notes(view, Service.CLEAN)
    (reader,) = view.readers
    assert (reader.name, reader.at, reader.behind, reader.needs) == ("dashboard", "snapshot 3", 2, "0000000003")


def test_the_newest_commit_of_each_streaming_job_is_told(table: PaimonTable) -> None:
    """A restored job looks for its identifier. Batch jobs have none of their own."""
    table.append(user="job-a", identifier=7)
    table.append(user="job-b", identifier=3)
    table.append(user="job-a", identifier=8)
    table.append(user="batch")
    said = notes(view_of(table), Service.CLEAN)
    assert "the streaming job with the commit user job-a committed 8 last, in snapshot 3" in said
    assert "the streaming job with the commit user job-b committed 3 last, in snapshot 2" in said
    assert "1 commit user of batch jobs" in said


def test_who_compacts_is_told(table: PaimonTable) -> None:
    table.append(user="job")
    assert "write-only is true" in notes(view_of(table))
    table.alter(write_only="false")
    assert "write-only is false: writers may compact" in notes(view_of(table))
    table.commit([(ADD, table.file(level=5))], kind="COMPACT", user="job")
    assert "write-only is false, and writers compact by themselves: job" in notes(view_of(table))


def test_jobs_that_write_the_same_keys_are_told_that_rows_need_an_order(
    table: PaimonTable, append_table: PaimonTable
) -> None:
    """Two jobs count on from the same sequence number. Lakewarden's own runs and a job that compacts write no rows."""
    hazard = "Paimon does not define which of the two rows readers see"
    table.append(user="job")
    table.append(user="job")
    table.commit([(ADD, table.file(level=5))], kind="COMPACT", user="compactor")
    table.commit([(ADD, table.file(level=5))], kind="COMPACT", user="lakewarden-run1")
    assert hazard not in notes(view_of(table))
    table.append(user="other")
    told = notes(view_of(table))
    assert "2 commit users write it, and it has no sequence.field" in told
    assert hazard in told
    table.alter(sequence__field="at")
    assert hazard not in notes(view_of(table))
    append_table.append(user="job")
    append_table.append(user="other")
    assert hazard not in notes(view_of(append_table))


def test_snapshots_beyond_retention_are_the_backlog_of_clean(table: PaimonTable) -> None:
    """None that is younger than the longest outage, whatever the table's own rule says. The slowest consumer holds."""
    for _ in range(12):
        table.append()
    assert Service.CLEAN not in view_of(table).backlogs
    clock_of(table).advance(2 * HOUR)
    assert Service.CLEAN not in view_of(table).backlogs
    clock_of(table).advance(22 * HOUR)
    assert view_of(table).backlogs[Service.CLEAN].commits == 2
    table.consume("slow", 2)
    assert view_of(table).backlogs[Service.CLEAN].commits == 1
    assert "the consumer slow holds snapshots" in notes(view_of(table), Service.CLEAN)


def test_features_that_an_old_client_would_lose_are_warned_of(table: PaimonTable) -> None:
    """A commit by Paimon 0.9.0 drops the fields of manifests that it does not know."""
    table.alter(row_tracking__enabled="true")
    table.append(table.file(stated={"_EXTERNAL_PATH": "s3://elsewhere/f"}))
    (warning,) = view_of(table).warnings
    assert "row tracking, files outside the table's folder" in warning


def test_rows_that_do_not_add_up_and_fields_that_are_not_known_are_warned_of(table: PaimonTable) -> None:
    table.append(stated={"totalRecordCount": 11, "rowSecurity": "x"})
    unknown, rows = view_of(table).warnings
    assert "snapshot-1 counts 11 rows, and its manifests count 10" in rows
    assert "fields that Lakewarden does not know (rowSecurity)" in unknown


def test_a_manifest_is_read_once(table: PaimonTable) -> None:
    """The next look reads what the commits since have added; and a manifest list for each half of the snapshot."""
    for p in range(5):
        table.append(table.file(p))
    by = PaimonFormat()
    first = observe(table, by=by)
    table.append(table.file(5))
    table.append(table.file(6))
    counting = CountingStorage()
    second = observe(table, first, storage=counting, by=by)
    assert len(counting.manifests) == 2
    assert len([name for name in counting.read_files if name.startswith("manifest-list-")]) == 2
    assert [name for name in counting.read_files if name.startswith("snapshot-")] == ["snapshot-6", "snapshot-7"]
    observe(table, second, storage=counting, by=by)
    assert len(counting.manifests) == 2
    assert "7 files" in notes(second.view)


def test_a_token_costs_two_requests_while_nothing_changes(table: PaimonTable) -> None:
    table.append()
    by, counting = PaimonFormat(), CountingStorage()
    first = by.token(registered(table), counting)
    counting.requests.clear()
    assert by.token(registered(table), counting) == first
    assert [one.rpartition("/")[2] for one in counting.requests] == ["snapshot-1", "snapshot-2"]


def test_an_equal_token_vouches_for_five_minutes(table: PaimonTable) -> None:
    """It shows no change of tags and options."""
    table.append()
    seen = observe(table)
    token = PAIMON.token(registered(table), LocalStorage())
    assert seen.vouched_for(token=token, now=table.clock.now() + timedelta(minutes=4))
    assert not seen.vouched_for(token=token, now=table.clock.now() + timedelta(minutes=5))


STEPS = st.lists(
    st.sampled_from(["append", "many", "merge", "compact", "minor", "upgrade", "delete", "expire", "back", "alter"]),
    max_size=12,
)


def stepped(table: PaimonTable, step: str) -> None:
    clock_of(table).advance(timedelta(minutes=10))
    match step:
        case "append":
            table.append()
        case "many":
            table.append(*(table.file(p % 3, bucket=p % 2, size=2**27 * (p % 2)) for p in range(7)))
        case "merge":
            table.append(merging=True)
        case "compact" if table.live():
            table.compact(p=0)
        case "minor" if table.live():
            table.compact(level=2)
        case "upgrade" if table.live():
            table.upgrade()
        case "delete" if table.live():
            table.commit([(DELETE, one) for one in table.live()[:2]], kind="OVERWRITE")
        case "expire" if len(table.snapshots) > 1:
            table.expire(min(table.snapshots) + 1)
        case "back" if len(table.snapshots) > 1:
            table.roll_back(sorted(table.snapshots)[-2])
        case "alter":
            table.alter(target_file_size=f"{table.newest + 1} mb")
        case _:
            pass


@pytest.mark.long
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_reading_only_what_is_new_finds_the_same_as_reading_everything(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """Whatever happens to the table, and the files are those that its commits left."""
    table = PaimonTable(tmp_path_factory.mktemp("paimon") / "t", clock=ManualClock())
    by, previous = PaimonFormat(), None
    for step in steps:
        stepped(table, step)
        previous = observe(table, previous, by=by)
        assert content(previous.view) == content(observe(table).view)
        held, live = facts_of(table).holdings, table.live()
        assert (held.files, held.bytes) == (len(live), sum(one.size for one in live))
        assert held.level_0 == sum(one.level == 0 for one in live)


def test_a_snapshot_that_is_expired_while_it_is_read_is_looked_at_again(table: PaimonTable) -> None:
    """The writer goes on meanwhile: the next look finds its newest snapshot."""
    table.append()

    class Expiring(LocalStorage):
        expired = False

        def read(self, location: str, *, limit: int = 2**26) -> bytes:
            if "/manifest-list-" in location and not self.expired:
                self.expired = True
                table.compact()
                table.expire(2)
            return super().read(location, limit=limit)

    view = observe(table, storage=Expiring()).view
    assert [one.time for one in view.timeline.instants] == ["0000000002"]
    assert view.faults == ()


def test_a_table_that_always_moves_is_tried_later(table: PaimonTable) -> None:
    """After three looks, by the name of the file that was gone."""
    table.append()

    class Moving(LocalStorage):
        def read(self, location: str, *, limit: int = 2**26) -> bytes:
            if "/manifest-list-" in location:
                raise FileNotFoundError(location)
            return super().read(location, limit=limit)

    with pytest.raises(TemporaryError, match=r"manifest-list-\w+-0, which the table names, is not there"):
        observe(table, storage=Moving())


def test_a_rollback_is_seen(table: PaimonTable) -> None:
    """Numbers of snapshots come again: the version of their files tells them apart."""
    table.append()
    table.append(table.file(1))
    by = PaimonFormat()
    before = observe(table, by=by)
    table.roll_back(1)
    assert by.token(registered(table), LocalStorage()) != before.token
    table.append(table.file(2), table.file(3))
    after = observe(table, before, by=by)
    assert after.token != before.token
    assert content(after.view) == content(observe(table).view)


def test_of_a_long_history_the_newest_are_read(table: PaimonTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are counted, and it is said that older commits are not."""
    monkeypatch.setattr(history, "MOST", 3)
    for _ in range(5):
        table.append()
    view = view_of(table)
    assert len(view.timeline.instants) == 3
    assert "at least 3 write commits since" in notes(view)
    assert "5 snapshots, 1 to 5" in notes(view, Service.CLEAN)


def test_manifests_that_are_too_many_for_one_look_are_read_by_the_next(table: PaimonTable) -> None:
    """What is missing is a fault until then."""
    for p in range(4):
        table.append(table.file(p))
    first = look(table)
    assert first.faults == ()

    memo, faults = None, []
    for _ in range(6):
        found = looked(
            str(table.folder),
            LocalStorage(),
            memo or replace(first.memo, digests={}, totals=None),
            head=4,
            now=table.clock.now(),
            timeout=timedelta(seconds=-1),
        )
        memo = found.memo
        faults.append(found.faults)
    assert "1 of its 4 manifests have been read so far" in faults[0][0]
    assert faults[-1] == ()
    assert found.facts.holdings == first.facts.holdings
