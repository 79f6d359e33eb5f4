"""The report of a Flink job that a partition is done (`partition.mark-done-action=http-report`).

The body is `{"params": ..., "table": "db.t", "path": "<location>", "partition": "dt=2026-01-01/"}`. Only `path` is
read: a hook is a hint. Any answer but a success makes the job restart, and so does the lack of one
(`HttpReportMarkDoneAction` of Paimon 1.3.1: the answer is a JSON object with the `result` SUCCESS).
"""

from __future__ import annotations

from lakewarden.planners.hooks import At, CommitHook, Hint, HookReader, MalformedHookError, json_object
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage.locations import spelled_location


def hints_of(body: bytes, *, whole: bool = True) -> tuple[Hint, ...]:
    """Return the table that the report is about. Raises MalformedHookError."""
    path = json_object(body, whole=whole).get("path")
    if not isinstance(path, str):
        raise MalformedHookError("the body has no path, as the report of a partition that is done has")
    try:
        return (At(location=spelled_location(path)),)
    except PermanentError as wrong:
        raise MalformedHookError(str(wrong)) from wrong


_READER = HookReader(sender="paimon", read=lambda body, whole, _catalog: hints_of(body, whole=whole))

HOOK = CommitHook(
    senders=("paimon",),
    about="Take the report of a Flink job that a partition is done (`partition.mark-done-action=http-report`). The "
    "answer is a success in every case, because any other answer makes the job restart.",
    reader_of=lambda _path: _READER,
    always={"result": "SUCCESS"},
)
