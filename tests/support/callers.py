"""What a daemon says of a token."""

from __future__ import annotations

from concurrent.futures import Future

from lakewarden.service.state.identity import BearerTokens, CallerOrRefusal


def caller_of(tokens: BearerTokens, token: str) -> CallerOrRefusal | None:
    """Return the caller with this token, or why it is refused, after its issuer has answered."""
    found = tokens.caller(token.encode())
    return found.result(timeout=30) if isinstance(found, Future) else found
