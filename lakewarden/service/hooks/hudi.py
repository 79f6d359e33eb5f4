"""Hudi's HTTP commit callback (`HoodieWriteCommitHttpCallback`): which table a writer says it has committed to.

The body is a `HoodieWriteCommitCallbackMessage` as plain JSON, with one write stat for each file, so it can be
megabytes. Only `basePath` is read: a hook is a hint, and its content is not trusted further than that.
"""

from __future__ import annotations

import json

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage import canonical_location


class MalformedHookError(Exception):
    """The body is not what a stock writer sends."""


def location_of(body: bytes) -> str:
    """Return the canonical location of the table that the callback is about. Raises MalformedHookError."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as wrong:
        raise MalformedHookError("the body is not JSON") from wrong
    base_path = message.get("basePath") if isinstance(message, dict) else None
    if not isinstance(base_path, str):
        raise MalformedHookError("the body has no basePath, as Hudi's commit callback has")
    try:
        return canonical_location(base_path)
    except PermanentError as wrong:
        raise MalformedHookError(str(wrong)) from wrong
