"""Answers in JSON, and the answer of every error: problem details (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.types import Scope

from lakewarden.planners.model.printable import printable_values
from lakewarden.service.model.problems import MEDIA_TYPE, ProblemCode, problem
from lakewarden.service.model.refusals import Refusal


class Answer(JSONResponse):
    """An answer with printable texts only. Names, paths and reasons come from tables and senders."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return super().render(printable_values(content))


class ProblemBody(BaseModel):
    """Any error, as problem details (RFC 9457). A member without a value is left out.

    `type` and `code` are for programs, and do not change. `detail` is for people. `remedy` says what to do, if that is
    known. `instance` is the path of the request. `key` is the id of the API key that was refused.
    """

    type: str = Field(json_schema_extra={"format": "uri"})
    title: str
    status: int
    detail: str
    code: str
    instance: str | None = None
    remedy: str | None = None
    key: str | None = None


PROBLEM = {"$ref": "#/components/schemas/ProblemBody"}
"""The schema of an error in OpenAPI."""


class ProblemAnswer(Answer):
    """An error as the answer."""

    media_type = MEDIA_TYPE


def problem_answer(
    scope: Scope,
    *,
    status: int,
    code: ProblemCode,
    detail: str,
    remedy: str | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> ProblemAnswer:
    """Return the answer of an error to the request of a scope."""
    raw: bytes = scope.get("raw_path") or b""
    instance = raw.decode("ascii", "replace").partition("?")[0] or None
    body = problem(status=status, code=code, detail=detail, remedy=remedy, instance=instance, key=key)
    return ProblemAnswer(body, status, headers=dict(headers or {}))


def refusal_answer(scope: Scope, refusal: Refusal, *, headers: Mapping[str, str] | None = None) -> ProblemAnswer:
    """Return the answer of a refusal."""
    said, remedy = refusal.message, refusal.remedy
    return problem_answer(scope, status=refusal.status, code=refusal.code, detail=said, remedy=remedy, headers=headers)
