"""Hudi's HTTP commit callback (`HoodieWriteCommitHttpCallback`): which table a writer says it has committed to.

The body is a `HoodieWriteCommitCallbackMessage` as plain JSON, with one write stat for each file, so it can be
megabytes. Only `basePath` is read: a hook is a hint, and its content is not trusted further than that. It stands before
the write stats, in the order of the class's fields as in the alphabet's, so that the beginning of a body will do.
"""

from __future__ import annotations

from lakewarden.planners.hooks import At, CommitHook, Hint, HookKey, HookReader, MalformedHookError, json_object
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage.locations import spelled_location


def hints_of(body: bytes, *, whole: bool = True) -> tuple[Hint, ...]:
    """Return the table that the callback is about; of a long one the beginning will do. Raises MalformedHookError."""
    base_path = json_object(body, whole=whole).get("basePath")
    if not isinstance(base_path, str):
        raise MalformedHookError("the body has no basePath, as Hudi's commit callback has")
    try:
        return (At(location=spelled_location(base_path)),)
    except PermanentError as wrong:
        raise MalformedHookError(str(wrong)) from wrong


_READER = HookReader(sender="hudi", read=lambda body, whole, _catalog: hints_of(body, whole=whole))

_KEY = HookKey(
    header="HUDI-CALLBACK-KEY",
    option="hoodie.write.commit.callback.http.api.key",
    well_known="hudi_write_commit_http_callback",
)
"""Read in `HoodieWriteCommitHttpCallbackClient` of 1.1.1 and 1.2.0: it sends this header with every callback."""

HOOK = CommitHook(
    senders=("hudi",), about="Take Hudi's HTTP commit callback.", reader_of=lambda _path: _READER, key=_KEY
)
