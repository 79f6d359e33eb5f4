"""Client certificates: which names of them count."""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.service.config.identity.tokens import CertificateGrant
from lakewarden.service.model.access import Caller, Role
from lakewarden.service.state.identity.certified import caller_of_certificate

GRANTS = [
    CertificateGrant(uri="spiffe://lake/spark", tables=("sales.*",)),
    CertificateGrant(dns="flink.example.com"),
    CertificateGrant(common_name="nifi"),
]


def _peer(*names: tuple[str, str], common_name: str = "x") -> dict[str, Any]:
    return {"subject": ((("organizationName", "nifi"),), (("commonName", common_name),)), "subjectAltName": names}


def test_a_certificate_has_the_role_hook_for_its_tables() -> None:
    """It can announce commits, and do nothing else."""
    assert caller_of_certificate(_peer(("URI", "spiffe://lake/spark")), GRANTS) == Caller(
        name="spiffe://lake/spark", role=Role.HOOK, tables=("sales.*",), key="certificate URI spiffe://lake/spark"
    )
    assert caller_of_certificate(_peer(("DNS", "a"), ("DNS", "flink.example.com")), GRANTS) is not None
    assert caller_of_certificate(_peer(common_name="nifi"), GRANTS) is not None


@pytest.mark.parametrize(
    "peer",
    [
        {},
        _peer(),
        _peer(("DNS", "spiffe://lake/spark")),
        _peer(("URI", "flink.example.com")),
        _peer(("DNS", "nifi")),
        _peer(("email", "flink.example.com")),
        _peer(("URI", "spiffe://lake/spark/x")),
        _peer(common_name="flink.example.com"),
    ],
)
def test_a_name_of_another_kind_counts_for_nothing(peer: dict[str, Any]) -> None:
    """An authority may let its clients choose one kind of name, and not the others."""
    assert caller_of_certificate(peer, GRANTS) is None


def test_a_grant_has_one_name() -> None:
    """With two names a reader could not say whether both must be there."""
    with pytest.raises(ValueError, match="one of uri, dns and common_name"):
        CertificateGrant(uri="a", dns="b")
    with pytest.raises(ValueError, match="one of uri, dns and common_name"):
        CertificateGrant()
