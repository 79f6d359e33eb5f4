"""Hudi's HTTP commit callback (`HoodieWriteCommitHttpCallback`): which table a writer says it has committed to.

The body is a `HoodieWriteCommitCallbackMessage` as plain JSON, with one write stat for each file, so it can be
megabytes. Only `basePath` is read: a hook is a hint, and its content is not trusted further than that. It stands before
the write stats, in the order of the class's fields as in the alphabet's, so that the beginning of a body will do.
"""

from __future__ import annotations

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage.locations import spelled_location
from lakewarden.service.hooks.hints import At, Hint, MalformedHookError, json_object


def hints_of(body: bytes, *, whole: bool = True) -> tuple[Hint, ...]:
    """Return the table that the callback is about; of a long one the beginning will do. Raises MalformedHookError."""
    base_path = json_object(body, whole=whole).get("basePath")
    if not isinstance(base_path, str):
        raise MalformedHookError("the body has no basePath, as Hudi's commit callback has")
    try:
        return (At(location=spelled_location(base_path)),)
    except PermanentError as wrong:
        raise MalformedHookError(str(wrong)) from wrong
