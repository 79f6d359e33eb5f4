"""The next plan of a clean: everything that there is to clean, or a slice of a neglected table within its budget.

The size of a slice is known only when Hudi has planned it. So the slice is chosen by what the oldest commits wrote,
then planned and counted. If it is too large, it is withdrawn and a smaller one is planned. Nothing is executed
meanwhile.
"""

from __future__ import annotations

from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.observing import clean_plan
from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.planners.formats.hudi.backlog.neglected import (
    FILES_AT_A_TIME,
    Bisection,
    Uncleaned,
    first_slice,
    uncleaned,
)
from lakewarden.planners.formats.hudi.deletion.readers import needed_by
from lakewarden.planners.formats.hudi.metadata.commits import written
from lakewarden.planners.formats.hudi.metadata.payloads import MALFORMED, UnreadableError, first, read_chunks
from lakewarden.planners.formats.hudi.metadata.plans import RUN_KEY
from lakewarden.planners.formats.hudi.metadata.whole import name_of
from lakewarden.planners.formats.hudi.options.service_options import CleanOptions
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.step import Step


def schedule_clean(table: OpenTable, options: CleanOptions) -> str | None:
    """Put a clean's plan on the timeline and return its instant; None if there is nothing to clean. A deletion that an
    operator has approved is planned anew as it was shown, unless a writer's archive has gone past its commit.

    Raises TemporaryError if the timeline cannot be read, or if another client began a plan of ours before its count.
    """
    folder = table.properties().timeline_folder
    found = _uncleaned(table, options, folder)
    approved = None if found is None else found.since(table.assignment.retained)
    if found is not None and approved is not None:
        table.client.retain_commits(max(1, found.kept, approved))
        return _schedule(table)
    if found is None or not found.neglected:
        if found is not None and table.view().readers:
            table.client.retain_commits(max(1, found.kept))
        return _schedule(table)
    most = table.assignment.most_files or FILES_AT_A_TIME
    slices = Bisection(
        first_slice(found, lambda commit: _files_of(table, f"{folder}/{name_of(commit)}"), most=most),
        all_of_it=found.excess,
    )
    while True:
        table.client.retain_commits(len(found.commits) - slices.commits)
        instant = _schedule(table)
        if instant is None:
            if not slices.was_empty():
                return None
        elif _fits(table, instant, most) or not slices.was_too_large():
            return instant
        else:
            _withdraw(table, instant)


def _schedule(table: OpenTable) -> str | None:
    with translated(Step.PLAN):
        return table.client.schedule_clean(extra_metadata={RUN_KEY: table.assignment.run})


def _fits(table: OpenTable, instant: str, most: int) -> bool:
    files = clean_plan(table.assignment, instant, table.storage).files_to_delete or 0
    if files > most:
        return False
    share, there = table.assignment.largest_share, table.files_if_asked(files)
    return share is None or there is None or files * 100 <= share * there


def _withdraw(table: OpenTable, instant: str) -> None:
    with translated(Step.PLAN):
        if not table.client.withdraw(instant):
            raise TemporaryError(f"clean {instant} was begun by another client before it was judged")


def _uncleaned(table: OpenTable, options: CleanOptions, folder: str) -> Uncleaned | None:
    view = table.view()
    last = view.timeline.last_completed(Service.CLEAN)
    retained = None
    if last is not None:
        key = "earliestCommitToRetain"
        try:
            retained = first(read_chunks(table.storage, f"{folder}/{name_of(last)}"), key).get(key) or None
        except (FileNotFoundError, UnreadableError, *MALFORMED) as error:
            raise TemporaryError(f"clean {last.time} cannot be read: {error}") from error
    needed = needed_by(view.readers)
    return uncleaned(
        view.timeline,
        options,
        retained=retained,
        now=view.observed_at,
        needed=None if needed is None else needed.needs,
    )


def _files_of(table: OpenTable, commit: str) -> int:
    """Return how many files a commit wrote; 0 if it is gone or unreadable, because its plan is counted anyway."""
    try:
        wrote = written.of(read_chunks(table.storage, commit))
    except (FileNotFoundError, UnreadableError, *MALFORMED):
        return 0
    return len(wrote.bases.groups) + len(wrote.logs.groups)
