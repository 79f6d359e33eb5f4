"""What the claims of a token give: a caller, or the reason why there is none. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakewarden.service.config.identity.tokens import AccountGrant, ClaimGrant
from lakewarden.service.model.access import LONGEST_NAME, RESERVED_NAMES, Caller

_WORDS = ("scope", "scp")
"""These claims have words, with spaces between them."""


def caller_of_claims(
    claims: Mapping[str, Any], *, grants: Sequence[ClaimGrant], name_claim: str, issuer: str
) -> Caller | str:
    """Return the caller of a token that was checked, or why it has no role."""
    name = next(_values(claims, name_claim), None)
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or name in RESERVED_NAMES:
        return f"its claim {name_claim} is no name of a caller"
    for grant in grants:
        if grant.value in _texts(claims, grant.claim):
            subject = str(claims.get("sub", name))
            return Caller(
                name=name[:LONGEST_NAME], role=grant.role, tables=grant.tables, key=f"{issuer} {subject}"[:_LONGEST_KEY]
            )
    return f"no grant of {issuer} fits its claims"


def caller_of_account(user: str, *, grants: Sequence[AccountGrant]) -> Caller | str:
    """Return the caller of a service account, such as `system:serviceaccount:lake:writers`, or why it has no role."""
    parts = user.split(":")
    if len(parts) != _PARTS or parts[:2] != ["system", "serviceaccount"]:
        return f"{user[:100]} is no service account"
    _, _, namespace, name = parts
    for grant in grants:
        if grant.namespace == namespace and grant.name in ("*", name):
            return Caller(name=f"{namespace}/{name}"[:LONGEST_NAME], role=grant.role, tables=grant.tables, key=user)
    return f"no grant of access.service_accounts fits {namespace}/{name}"


_PARTS = 4
_LONGEST_KEY = 500


def _texts(claims: Mapping[str, Any], name: str) -> Iterator[str]:
    for value in _values(claims, name):
        if isinstance(value, str):
            yield from value.split() if name in _WORDS else (value,)
        elif isinstance(value, list):
            yield from (one for one in value if isinstance(one, str))


def _values(claims: Mapping[str, Any], name: str) -> Iterator[Any]:
    """Yield the claim of this name: the one with its dots, and the one inside of others."""
    if name in claims:
        yield claims[name]
        return
    here: Any = claims
    for part in name.split("."):
        if not isinstance(here, dict) or part not in here:
            return
        here = here[part]
    yield here
