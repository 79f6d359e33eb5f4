"""Answers in JSON. They can always be encoded and shown, with any name of a table."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse

from lakewarden.planners.model.printable import printable_values


class Answer(JSONResponse):
    """An answer with printable texts only. Names, paths and reasons come from tables and senders."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return super().render(printable_values(content))
