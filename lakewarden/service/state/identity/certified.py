"""The callers of client certificates. The handshake has checked the certificate against its authority. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lakewarden.service.config.identity.tokens import CertificateGrant
from lakewarden.service.model.access import LONGEST_NAME, RESERVED_NAMES, Caller, Role


def caller_of_certificate(peer: Mapping[str, Any], grants: Collection[CertificateGrant]) -> Caller | None:
    """Return the caller of a certificate, as `ssl` describes it. None if no grant fits."""
    names = set(_names(peer))
    for grant in grants:
        kind, name = _named(grant)
        if (kind, name) in names and name not in RESERVED_NAMES:
            return Caller(
                name=name[:LONGEST_NAME], role=Role.HOOK, tables=grant.tables, key=f"certificate {kind} {name}"
            )
    return None


def _named(grant: CertificateGrant) -> tuple[str, str]:
    if grant.uri is not None:
        return "URI", grant.uri
    return ("DNS", grant.dns) if grant.dns is not None else ("commonName", grant.common_name or "")


def _names(peer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for kind, name in peer.get("subjectAltName", ()):
        if kind in ("URI", "DNS"):
            yield kind, name
    for part in peer.get("subject", ()):
        for kind, name in part:
            if kind == "commonName":
                yield kind, name
