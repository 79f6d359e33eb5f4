"""Signing in: a browser sends its API key in a cookie, which no script can read. And the files that pages load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypedDict
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.service.http.access.callers import KEY_COOKIE, Identify, identified
from lakewarden.service.http.access.roles import OPEN
from lakewarden.service.http.errors import ApiError
from lakewarden.service.http.pages.answer import HEADERS, Rendering
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.model.problems import Refusal
from lakewarden.service.page.rendering import static_files

if TYPE_CHECKING:
    from lakewarden.service.state.sign_in import SignIns

SIGN_IN = "/sign-in"
WITH_ISSUER = "/sign-in/with"
RETURN_PATH = "/sign-in/returned"
"""Where an issuer sends the browser back to. It is registered there, below `api.url`."""

_BEGUN = "lakewarden-sign-in"
_MINUTES = 10
STATIC = "/static/"
_FIELDS = 10
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def add_sign_in(app: FastAPI, identify: Identify | None, sign_ins: SignIns | None, rendering: Rendering) -> None:
    """Add the page, and the way out. Without `identify` there is nothing to sign in to."""
    files = static_files()

    def shown(to: str, *, status: int = 200, refused: str | None = None) -> Response:
        names = [] if sign_ins is None else sign_ins.names
        return rendering.bare("sign_in", status=status, to=to, refused=refused, issuers=names)

    @app.get(STATIC + "{name}", include_in_schema=False, openapi_extra=OPEN)
    def static(name: str, v: str = "") -> Response:
        """Return a file that pages load. Its address changes with its content."""
        if name not in files:
            raise ApiError(404, "not_found", f"there is no file {name!r}")
        lasting = "public, max-age=31536000, immutable" if v else "no-cache"
        return Response(
            files[name], media_type=_TYPES[name.rpartition(".")[2]], headers={**HEADERS, "Cache-Control": lasting}
        )

    @app.get(SIGN_IN, include_in_schema=False, openapi_extra=OPEN)
    def form(to: str = "/") -> Response:
        """Return the form."""
        return shown(_inside(to))

    @app.post(SIGN_IN, include_in_schema=False, openapi_extra=OPEN)
    async def sign_in(request: Request) -> Response:
        """Check a key, keep it in the cookie, and lead back to the page that was asked for. Without `identify` no key
        is kept, because none counts.
        """
        sent = _form(await request.body())
        key, to = sent.get("key", [""])[0].strip(), _inside(sent.get("to", ["/"])[0])
        answer = RedirectResponse(to, 303, headers=HEADERS)
        if identify is None:
            return answer
        caller = await identified(identify, key.encode()) if key.isascii() else None
        refused = _why_no_page(caller)
        if refused is not None:
            return shown(to, status=401, refused=refused)
        answer.set_cookie(KEY_COOKIE, key, httponly=True, samesite="lax", secure=_is_secure(request))
        return answer

    if identify is not None and sign_ins is not None:
        _add_issuers(app, identify, sign_ins, shown)

    @app.post("/sign-out", include_in_schema=False, openapi_extra=OPEN)
    def sign_out() -> Response:
        """Have the browser forget the key."""
        answer = RedirectResponse(SIGN_IN, 303, headers=HEADERS)
        answer.delete_cookie(KEY_COOKIE, httponly=True, samesite="lax")
        return answer


def _add_issuers(app: FastAPI, identify: Identify, sign_ins: SignIns, shown: Callable[..., Response]) -> None:
    @app.get(WITH_ISSUER, include_in_schema=False, openapi_extra=OPEN)
    def begin(issuer: str, to: str = "/") -> Response:
        """Lead the browser to an issuer. Its cookie is what it brings back: no other browser can end this sign-in."""
        try:
            begun = sign_ins.begin(issuer, to=_inside(to))
        except (PermanentError, TemporaryError) as wrong:
            return shown(_inside(to), status=_status(wrong), refused=str(wrong))
        answer = RedirectResponse(begun.address, 303, headers=HEADERS)
        answer.set_cookie(_BEGUN, begun.cookie, max_age=60 * _MINUTES, path=SIGN_IN, **_cookie(sign_ins))
        return answer

    @app.get(RETURN_PATH, include_in_schema=False, openapi_extra=OPEN)
    async def returned(request: Request) -> Response:
        """Keep the token of a person who has signed in, and lead to the page that was asked for."""
        cookie = request.cookies.get(_BEGUN, "")
        try:
            signed_in = await asyncio.to_thread(sign_ins.finish, cookie, str(request.url))
        except (PermanentError, TemporaryError) as wrong:
            return shown("/", status=_status(wrong), refused=str(wrong))
        to, caller = _inside(signed_in.to), await identified(identify, signed_in.token.encode("ascii", "replace"))
        refused = caller.message if isinstance(caller, Refusal) else _why_no_page(caller)
        if refused is not None:
            return shown(to, status=caller.status if isinstance(caller, Refusal) else 403, refused=refused)
        answer = RedirectResponse(to, 303, headers=HEADERS)
        answer.set_cookie(KEY_COOKIE, signed_in.token, **_cookie(sign_ins))
        answer.delete_cookie(_BEGUN, path=SIGN_IN)
        return answer


def _why_no_page(caller: Caller | Refusal | None) -> str | None:
    """Return why a caller who signs in would see no page. None for a caller who may."""
    if not isinstance(caller, Caller):
        return "This key is unknown, has expired, or was revoked."
    return None if caller.may(Role.VIEWER) else f"The role is {caller.role}, and pages need the role viewer."


def _status(wrong: PermanentError | TemporaryError) -> int:
    return 503 if isinstance(wrong, TemporaryError) else 403


def _cookie(sign_ins: SignIns) -> _Cookie:
    return {"httponly": True, "samesite": "lax", "secure": sign_ins.is_secure}


class _Cookie(TypedDict):
    httponly: bool
    samesite: Literal["lax"]
    secure: bool


def _form(body: bytes) -> dict[str, list[str]]:
    """Return what a form sent. Raises ApiError (400) if that is not our form."""
    try:
        return parse_qs(body.decode("utf-8", "replace"), max_num_fields=_FIELDS)
    except ValueError as many:
        raise ApiError(400, "malformed", f"body: the form has more than {_FIELDS} fields") from many


def _inside(to: str) -> str:
    """Return the path of a page of ours. An address elsewhere becomes the first page."""
    plain = to.isascii() and to.isprintable() and "\\" not in to
    return to if plain and to.startswith("/") and not to.startswith("//") else "/"


def _is_secure(request: Request) -> bool:
    """Whether the browser reached the page by HTTPS, perhaps at a proxy."""
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")
