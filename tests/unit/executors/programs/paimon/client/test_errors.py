"""What Paimon's exceptions mean to the daemon."""

from __future__ import annotations

import pytest

from lakewarden.executors.programs.paimon.client.opened import meaning, translated
from lakewarden.planners.model.errors import (
    LakewardenError,
    NotYetError,
    PermanentError,
    TemporaryError,
    UnknownError,
    YieldError,
)
from lakewarden.planners.model.instant import Step


@pytest.mark.parametrize(
    ("causes", "kind"),
    [
        (["java.lang.RuntimeException: File deletion conflicts detected! Give up committing."], YieldError),
        (["java.io.UncheckedIOException: x", "java.io.FileNotFoundException: /t/p/data-1.parquet"], TemporaryError),
        (["java.io.IOException: No space left on device"], TemporaryError),
        (["java.lang.RuntimeException: Could not find any factory for identifier 'lance'"], PermanentError),
        (["org.apache.paimon.table.source.EndOfScanException"], NotYetError),
        (["java.lang.RuntimeException: anything else"], TemporaryError),
    ],
)
def test_a_java_exception_means_what_the_daemon_does_next(causes: list[str], kind: type[LakewardenError]) -> None:
    """Paimon's client publishes nothing, so nothing is unknown after its exceptions, in the commit step neither."""
    assert type(meaning(causes, Step.COMMIT)) is kind


def test_a_jvm_that_is_gone_leaves_the_end_unknown() -> None:
    """The run then publishes nothing, and deletes nothing."""
    with pytest.raises(UnknownError, match="the JVM cannot be reached"), translated(Step.COMMIT):
        raise ConnectionRefusedError("the JVM is gone")
