"""The settings of tokens: which issuers count, and what their claims may do."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from lakewarden.planners.settings import Settings
from lakewarden.planners.storage.settings import SecretSetting
from lakewarden.service.model.access import EVERY_TABLE, TABLE_PATTERN, Role, is_loopback

_Text = Annotated[str, Field(min_length=1, max_length=500)]
_Pattern = Annotated[str, Field(pattern=TABLE_PATTERN)]
_T = TypeVar("_T")


class Algorithm(StrEnum):
    """The algorithms that a token may be signed with. All have a public key: none has a shared secret, or no key."""

    RS256 = "RS256"
    RS384 = "RS384"
    RS512 = "RS512"
    PS256 = "PS256"
    PS384 = "PS384"
    PS512 = "PS512"
    ES256 = "ES256"
    ES384 = "ES384"
    ES512 = "ES512"
    EDDSA = "EdDSA"


class TableGrant(Settings):
    """The tables for which a grant counts."""

    tables: tuple[_Pattern, ...] = EVERY_TABLE
    """Patterns for the ids of the tables for which the role counts, with `*` and `?`."""

    @field_validator("tables")
    @classmethod
    def _for_some_table(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _not_empty(value, "remove it, and the role is for every table")


class ClaimGrant(TableGrant):
    """A claim of a token, and the role that it gives."""

    claim: _Text
    """The name of the claim, such as `groups`. A claim inside another one has a dot: `realm_access.roles`."""

    value: _Text
    """The value. If the claim is a list, one of its entries must be this value. If the claim is `scope` or `scp`, one
    of its words must be.
    """

    role: Role
    """`viewer`, `hook`, `trigger`, `operator` or `admin` (docs/security.md)."""


class IssuerSettings(Settings):
    """An issuer of tokens (JWT), such as an OpenID Connect provider."""

    issuer: _Text
    """The address of the issuer, exactly as the claim `iss` has it. It begins with https://, or on this machine with
    http://.
    """

    audience: tuple[_Text, ...]
    """The names of this daemon. The claim `aud` of a token must have one of these."""

    algorithms: tuple[Algorithm, ...] = (Algorithm.RS256, Algorithm.ES256)
    """The algorithms that count. There are none without a public key."""

    grants: tuple[ClaimGrant, ...]
    """What claims give. The first entry that fits decides: put the strongest role first. A token without a fitting
    entry is refused.
    """

    jwks_url: str | None = None
    """The address of the public keys. By default the issuer names it at `/.well-known/openid-configuration`."""

    authority: Path | None = None
    """A file with the authorities that the certificate of the issuer is checked against, in PEM. The default is those
    of the system.
    """

    client_id: _Text | None = None
    """The name of Lakewarden as a client of the issuer. It lets people sign in on the page with this issuer
    (authorization code with PKCE). Let the issuer know `/sign-in/returned` below `api.url` as the redirect address.
    """

    client_secret: SecretSetting | None = None
    """The secret of this client: `{env: NAME}` or `{file: PATH}`. A public client has none."""

    sign_in_scopes: tuple[_Text, ...] = ("openid", "profile")
    """What the page asks the issuer for. ID tokens must have the claims of `grants`."""

    name_claim: _Text = "sub"
    """The claim with the name of the caller, in runs, approvals and the audit log. It must be one that users cannot
    change.
    """

    @field_validator("issuer", "jwks_url")
    @classmethod
    def _over_tls(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            host = parts.hostname or ""
        except ValueError:
            host = ""
        if not host or parts.username is not None:
            raise ValueError(f"{value!r} is not an address: write https://HOST/PATH")
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
            raise ValueError(f"{value!r} does not begin with https://, so another machine could answer for the issuer")
        return value

    @field_validator("audience", "algorithms", "grants")
    @classmethod
    def _some(cls, value: _T) -> _T:
        return _not_empty(value, "write at least one")

    @model_validator(mode="after")
    def _for_its_client(self) -> IssuerSettings:
        if self.client_id is not None and self.client_id not in self.audience:
            raise ValueError(f"ID tokens are for the client_id: add {self.client_id!r} to audience")
        return self


def _not_empty(value: _T, remedy: str) -> _T:
    if not value:
        raise ValueError(f"there are none: {remedy}")
    return value


# The certificate of a port.


class TlsSettings(Settings):
    """The certificate with which a port speaks TLS. Both files are read again when one of them has changed."""

    certificate: Path
    """The file with the certificate and its chain, in PEM."""

    key: Path
    """The file with the private key, in PEM, without a password. The key itself never stands in the configuration."""

    @field_validator("certificate", "key")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        if not value.is_absolute():
            raise ValueError(f"{str(value)!r} is not absolute")
        return value
