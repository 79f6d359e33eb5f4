"""Answers in JSON: whatever a table is called, they can be encoded, and shown as they are."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse

from lakewarden.planners.model.printable import printable_values


class Answer(JSONResponse):
    """An answer whose texts are printable: names, paths and reasons come from tables and senders."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return super().render(printable_values(content))
