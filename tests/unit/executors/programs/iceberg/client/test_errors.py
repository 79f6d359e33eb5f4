"""The meaning of Iceberg's exceptions: a retry, a conflict with a writer, an operator's action, or an unknown
commit.
"""

from __future__ import annotations

import pytest

from lakewarden.executors.programs.iceberg.client.errors import JobsCancelledError, meaning, plan_refused
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, UnknownError, YieldError
from lakewarden.planners.model.instant import Step

_ICEBERG = "org.apache.iceberg.exceptions"
_UNKNOWN = f"{_ICEBERG}.CommitStateUnknownException: Cannot determine whether the commit was successful or not"
_MOVED = f"{_ICEBERG}.CommitFailedException: Cannot commit: stale table metadata"
_CHANGED = f"{_ICEBERG}.ValidationException: Cannot commit, missing data files: [part-0.parquet]"
_CANCELLED = "org.apache.spark.SparkException: Job 7 cancelled part of cancelled job tag run-1"
_GONE = f"{_ICEBERG}.NoSuchTableException: Table does not exist: db.trips"
_GONE_FOR_SPARK = "org.apache.spark.sql.catalyst.analysis.NoSuchTableException: [TABLE_OR_VIEW_NOT_FOUND]"
_BUSY = f"{_ICEBERG}.ServiceUnavailableException: Service unavailable: try later"
_FULL = "java.io.IOException: No space left on device"
_MISSING = f"{_ICEBERG}.NotFoundException: Failed to open input stream for file: part-0.parquet"


@pytest.mark.parametrize(
    ("thrown", "step", "kind"),
    [
        (_MOVED, Step.COMMIT, TemporaryError),
        (_CHANGED, Step.COMMIT, YieldError),
        (_UNKNOWN, Step.COMMIT, UnknownError),
        (_BUSY, Step.COMMIT, TemporaryError),
        (_GONE, Step.COMMIT, PermanentError),
        ("java.lang.IllegalStateException: Timed out", Step.COMMIT, UnknownError),
        (_CANCELLED, Step.COMMIT, UnknownError),
        (_FULL, Step.COMMIT, UnknownError),
        (_MISSING, Step.COMMIT, UnknownError),
        (_CANCELLED, Step.EXECUTE, JobsCancelledError),
        (_FULL, Step.EXECUTE, TemporaryError),
        (_MISSING, Step.EXECUTE, PermanentError),
        (_GONE, Step.PLAN, PermanentError),
        (
            "org.apache.spark.sql.catalyst.analysis.NoSuchTableException: [TABLE_OR_VIEW_NOT_FOUND]",
            Step.PLAN,
            PermanentError,
        ),
        (f"{_ICEBERG}.ValidationException: Cannot find field 'no_such_column'", Step.PLAN, PermanentError),
        ("java.lang.IllegalArgumentException: Cannot sort data without a valid sort order", Step.PLAN, PermanentError),
        ("java.lang.UnsupportedOperationException: Cannot read unsupported version 4", Step.PLAN, PermanentError),
        ("java.lang.RuntimeException: something else", Step.EXECUTE, TemporaryError),
    ],
)
def test_an_ending_is_called_what_it_is(thrown: str, step: Step, kind: type[LakewardenError]) -> None:
    """In the commit only what Iceberg says for certain is believed. Before it nothing was committed."""
    assert type(meaning([thrown], step)) is kind


@pytest.mark.parametrize("step", list(Step))
def test_an_unknown_commit_is_unknown_whatever_came_with_it(step: Step) -> None:
    """Iceberg gives it a cause. By the cause alone it could pass for a conflict that may be repeated, and its files for
    deletable.
    """
    for causes in ([_UNKNOWN, _MOVED], ["java.lang.RuntimeException: Cannot commit", _UNKNOWN, _CHANGED]):
        assert type(meaning(causes, step)) is UnknownError


def test_a_driver_that_is_missing_is_named_with_the_setting_for_it() -> None:
    """Lakewarden bundles no driver of a database."""
    causes = [
        "org.apache.iceberg.jdbc.UncheckedSQLException: Failed to connect: jdbc:sqlite:/x",
        "java.sql.SQLException: No suitable driver found for jdbc:sqlite:/x",
    ]
    found = meaning(causes, Step.PLAN)
    assert isinstance(found, PermanentError)
    assert "spark.driver.extraClassPath" in str(found)


def test_a_class_is_told_by_its_whole_name() -> None:
    """A class of another library with a longer name means something else."""
    assert type(meaning(["com.example.JsonValidationException: no"], Step.COMMIT)) is UnknownError


@pytest.mark.parametrize(
    "said", ["S3Exception: Access Denied. (Service: S3, Status Code: 403)", "AccessDeniedException: no"]
)
def test_a_plan_file_that_the_store_refuses_names_the_remedy(said: str) -> None:
    """A table bucket takes no such file, however often it is tried. Any other failure keeps its meaning."""
    refused = plan_refused(TemporaryError(said), "s3://b/t/metadata/lakewarden-clean.json")

    assert isinstance(refused, PermanentError)
    assert "remove its clean and orphans policies" in str(refused)
    assert said in str(refused)
    busy = TemporaryError("SlowDown")
    assert plan_refused(busy, "s3://b/t") is busy
