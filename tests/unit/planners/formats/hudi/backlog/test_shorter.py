"""A policy of clean that keeps less than the newest clean did."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi.options.service_options import CleanOptions, CleanPolicy
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import KeptMore
from tests.support.hudi.hudi_look import made, seen
from tests.support.hudi.hudi_table import HudiTable, commit_content


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
