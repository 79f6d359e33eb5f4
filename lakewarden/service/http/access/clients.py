"""The address from which a request came."""

from __future__ import annotations

from starlette.types import Scope


def client_of(scope: Scope) -> str:
    """Return the address of the client of a request. Empty if it is not known."""
    return str((scope.get("client") or ("",))[0])
