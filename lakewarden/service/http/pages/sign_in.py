"""Signing in: a browser sends its API key in a cookie, which no script can read. And the files that pages load."""

from __future__ import annotations

from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from lakewarden.service.http.access.callers import KEY_COOKIE, Identify, identified
from lakewarden.service.http.access.roles import OPEN
from lakewarden.service.http.errors import ApiError
from lakewarden.service.http.pages.answer import HEADERS, Rendering
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.page.rendering import static_files

SIGN_IN = "/sign-in"
STATIC = "/static/"
_FIELDS = 10
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def add_sign_in(app: FastAPI, identify: Identify | None, rendering: Rendering) -> None:
    """Add the page, and the way out. Without `identify` there is nothing to sign in to."""
    files = static_files()

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
        return rendering.bare("sign_in", to=_inside(to), refused=None)

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
        refused = None
        if not isinstance(caller, Caller):
            refused = "This key is unknown, has expired, or was revoked."
        elif not caller.may(Role.VIEWER):
            refused = f"This key has the role {caller.role}, and pages need the role viewer."
        if refused is not None:
            return rendering.bare("sign_in", status=401, to=to, refused=refused)
        answer.set_cookie(KEY_COOKIE, key, httponly=True, samesite="lax", secure=_is_secure(request))
        return answer

    @app.post("/sign-out", include_in_schema=False, openapi_extra=OPEN)
    def sign_out() -> Response:
        """Have the browser forget the key."""
        answer = RedirectResponse(SIGN_IN, 303, headers=HEADERS)
        answer.delete_cookie(KEY_COOKIE, httponly=True, samesite="lax")
        return answer


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
