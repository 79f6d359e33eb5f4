"""What an operator is told before a service runs on a Hudi table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.service_options import CleanOptions, CleanPolicy
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import KeptMore, TableView
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.hudi_look import made, seen
from tests.support.hudi.hudi_table import HudiTable, commit_content, log_file

# A policy of clean that keeps less than the newest clean did.


def cleaned(folder: Path, *, kept: int, version: int = 9) -> tuple[HudiTable, str]:
    """Return a table of 30 commits with a clean that kept the newest of them, and the time of the clean."""
    table = made(folder, version=version)
    times = [table.write({"p0": []}) for _ in range(30)]
    clean = table.plan_clean()
    table.complete_clean(clean, seen=times[-1], retained=times[-kept])
    return table, clean


def found(table: HudiTable, options: CleanOptions | None) -> KeptMore | None:
    return seen(table, Service.CLEAN, options=options).kept_more.get(Service.CLEAN)


@pytest.mark.parametrize("version", [6, 9])
def test_a_policy_that_keeps_fewer_commits_than_the_newest_clean_is_told(tmp_path: Path, version: int) -> None:
    """Readers may count on what it kept. The numbers of both are said."""
    table, clean = cleaned(tmp_path, kept=24, version=version)
    said = found(table, CleanOptions(commits_retained=10))
    says = f"the policy keeps 10 commits, where the newest clean {clean} kept 24"
    assert said == KeptMore(says=says, instant=clean, commits=24)
    assert found(table, None) == said, "Hudi keeps ten by default"


@pytest.mark.parametrize(
    "options",
    [
        CleanOptions(commits_retained=24),
        CleanOptions(commits_retained=100),
        CleanOptions(policy=CleanPolicy.KEEP_LATEST_BY_HOURS, hours_retained=1000),
        CleanOptions(policy=CleanPolicy.KEEP_LATEST_FILE_VERSIONS),
    ],
)
def test_a_policy_that_keeps_as_much_is_not_told(tmp_path: Path, options: CleanOptions) -> None:
    """Versions of files cannot be compared with commits."""
    table, _ = cleaned(tmp_path, kept=24)
    assert found(table, options) is None


def test_a_table_that_was_never_cleaned_kept_nothing(tmp_path: Path) -> None:
    """Nobody set a retention that is known."""
    table = made(tmp_path)
    table.write({"p0": []})
    assert found(table, CleanOptions(commits_retained=1)) is None


def test_a_write_that_was_in_flight_at_the_clean_was_not_kept_by_it(tmp_path: Path) -> None:
    """Hudi counts completed commits. So a clean of ten commits beside another writer kept ten, and not eleven."""
    table = made(tmp_path)
    times = [table.write({"p0": []}) for _ in range(30)]
    beside = table.begin_write()
    times.append(table.write({"p0": []}))
    clean = table.plan_clean()
    table.complete_clean(clean, seen=times[-1], retained=times[-10])
    table.commit_write(beside, content=commit_content({"p0": []}))
    assert beside < times[-1]
    assert found(table, CleanOptions(commits_retained=10)) is None
    less = found(table, CleanOptions(commits_retained=9))
    assert less is not None
    assert less.commits == 10


# What an operator is told of deleted keys that come back during a compaction.


def _view(table: HudiTable, **options: Any) -> TableView:
    asked = Table(
        id=TableId("trips"),
        format="hudi",
        location=str(table.folder),
        options=HudiTableOptions.model_validate(options),
        policies={Service.COMPACTION: Policy(trigger=NumCommits(at_least=1))},
    )
    return HUDI.observe(asked, storage_for(asked.location), None, now=table.clock.now()).view


def _notes(table: HudiTable, **options: Any) -> str:
    """Return what is noted of a compaction."""
    return " ".join(_view(table, **options).notes.get(Service.COMPACTION, ()))


@pytest.mark.parametrize("writers", ["live", "none"])
def test_only_a_declaration_of_the_index_spares_the_look_for_returned_keys(tmp_path: Path, writers: str) -> None:
    """A writer that is off by day has perhaps brought a key back by night."""
    table = made(tmp_path)
    table.write({"p0": [log_file("f3a1c0de-6a0e-4a1c-9b52-3f8f6e5e6b7a-0", "1")]})

    assert "drops deleted rows" in _notes(table, writers=writers)
    assert _notes(table, writers=writers, returning_keys="trusted") == ""
    assert _notes(table, writers=writers, bucket_index={"engine": "simple"}) == ""


@pytest.mark.parametrize("group", ["00000003-6a0e-4a1c-9b52-3f8f6e5e6b7a-0", "00000003-0000-0000-0000-000000000000-0"])
def test_names_of_buckets_are_told_and_not_trusted(tmp_path: Path, group: str) -> None:
    """A second job without the index looks in base files only."""
    table = made(tmp_path)
    table.write({"p0": [log_file(group, "1")]})

    assert "If all writers have hoodie.index.type=BUCKET, declare the bucket_index" in _notes(table)


def test_a_table_with_deletes_has_a_warning_with_the_query_that_finds_doubled_keys(tmp_path: Path) -> None:
    """Other programs may have compacted it, and no service removes such rows. `inspect` prints warnings, too."""
    table = made(tmp_path)
    group = "f3a1c0de-6a0e-4a1c-9b52-3f8f6e5e6b7a-0"
    table.write({"p0": [log_file(group, "1")]})
    assert not any("delete rows" in one for one in _view(table).warnings)
    table.write({"p0": [log_file(group, "1", deletes=2)]})
    [warning] = (one for one in _view(table).warnings if "delete rows" in one)
    assert "GROUP BY 1, 2 HAVING count(*) > 1" in warning
    assert not any("delete rows" in one for one in _view(table, returning_keys="trusted").warnings)
