"""What Hudi says of the rows that a rewrite has written. An error is no exception there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from lakewarden.executors.programs.hudi.steps.rewriting import written_whole
from lakewarden.planners.model.errors import TemporaryError


class JavaError(str):
    """An exception of Java."""

    def toString(self) -> str:  # noqa: N802 - Java's name
        return str(self)


@dataclass
class WriteStatus:
    """Hudi's `WriteStatus`."""

    errors: Mapping[str, JavaError] = field(default_factory=dict)
    whole: JavaError | None = None
    keys: bool = False

    def isTrackingSuccessfulWrites(self) -> bool:  # noqa: N802 - Java's names
        return self.keys

    def hasErrors(self) -> bool:  # noqa: N802
        return bool(self.errors)

    def hasGlobalError(self) -> bool:  # noqa: N802
        return self.whole is not None

    def getGlobalError(self) -> JavaError | None:  # noqa: N802
        return self.whole

    def getErrors(self) -> Mapping[str, JavaError]:  # noqa: N802
        return self.errors

    def getTotalErrorRecords(self) -> int:  # noqa: N802
        return len(self.errors)

    def getFileId(self) -> str:  # noqa: N802
        return "group-7"


class Statuses:
    """An RDD of them. With a record index they carry all keys, and are too large to be collected."""

    def __init__(self, *statuses: WriteStatus) -> None:
        self._statuses = statuses

    def count(self) -> int:
        return len(self._statuses)

    def first(self) -> WriteStatus:
        return self._statuses[0]

    def collect(self) -> list[WriteStatus]:
        assert not any(one.keys for one in self._statuses), "all keys would be in the driver at once"
        return list(self._statuses)

    def toLocalIterator(self) -> Iterator[WriteStatus]:  # noqa: N802
        return iter(self._statuses)


@pytest.mark.parametrize("keys", [False, True])
def test_statuses_without_an_error_are_counted(keys: bool) -> None:
    assert written_whole(Statuses(WriteStatus(keys=keys), WriteStatus(keys=keys))) == 2
    assert written_whole(Statuses()) == 0


def test_a_row_or_a_file_that_could_not_be_written_ends_the_run_with_hudis_reason() -> None:
    failed = WriteStatus(errors={"o1": JavaError("NullPointerException: no schema\n\tat x"), "o2": JavaError("other")})
    with pytest.raises(TemporaryError, match=r"^2 rows of file group group-7 .*: NullPointerException: no schema$"):
        written_whole(Statuses(WriteStatus(), failed))
    with pytest.raises(TemporaryError, match="the disk is gone"):
        written_whole(Statuses(WriteStatus(whole=JavaError("the disk is gone"))))
