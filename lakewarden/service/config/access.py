"""The settings of access: whether requests need a key, and which keys and tokens count."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator

from lakewarden.planners.settings import Settings
from lakewarden.planners.storage.settings import SecretSetting
from lakewarden.service.config.identity import IssuerSettings
from lakewarden.service.model.access import EVERY_TABLE, KEY_NAME, RESERVED_NAMES, TABLE_PATTERN, Role


class Authentication(StrEnum):
    """Whether a request needs an API key or a token."""

    NONE = "none"
    KEYS = "keys"


class Metered(StrEnum):
    """The clients that may read the metrics."""

    OPEN = "open"
    VIEWER = "viewer"


class KeySettings(Settings):
    """An API key that is a secret of the machine, for example a mounted Kubernetes Secret."""

    name: str = Field(pattern=KEY_NAME)
    """The name of its person or program, in runs, approvals and the audit log. Several keys may have the same name, so
    an old key and a new one count at the same time.
    """

    role: Role
    """`viewer`, `hook`, `trigger`, `operator` or `admin` (docs/security.md)."""

    tables: tuple[Annotated[str, Field(pattern=TABLE_PATTERN)], ...] = EVERY_TABLE
    """Patterns for the ids of the tables for which the role counts, with `*` and `?`."""

    key: SecretSetting
    """The key, at least 20 characters: `{env: NAME}` or `{file: PATH}`. A file is read again every few seconds."""

    @field_validator("name")
    @classmethod
    def _of_a_person_or_program(cls, value: str) -> str:
        if value in RESERVED_NAMES:
            raise ValueError(f"{value!r} means requests that no person made: give the key another name")
        return value

    @property
    def place(self) -> str:
        """Where the secret is: the environment variable or the file. It is the id of the key in the audit log."""
        return self.key.env or str(self.key.file)

    @field_validator("tables")
    @classmethod
    def _for_some_table(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("is empty: remove it, and the key is for every table")
        return value


class AccessSettings(Settings):
    """The callers of the ports."""

    authentication: Authentication = Authentication.NONE
    """`none`: every client may do everything, and each port must listen on a loopback address. `keys`: every request
    needs an API key, or a token of one of `issuers`. `lakewarden keys create` makes a key.
    """

    keys: tuple[KeySettings, ...] = ()
    """Further keys, beside those of `lakewarden keys`."""

    issuers: tuple[IssuerSettings, ...] = ()
    """Issuers of tokens (JWT), such as OpenID Connect providers."""

    metrics: Metered = Metered.OPEN
    """`open`: `/metrics` of the management port needs no key. It names every table. `viewer`: it needs a key with the
    role viewer for every table. Probes never need a key.
    """

    @field_validator("keys")
    @classmethod
    def _each_secret_once(cls, value: tuple[KeySettings, ...]) -> tuple[KeySettings, ...]:
        places = [entry.key for entry in value]
        twice = next((number for number, place in enumerate(places) if place in places[:number]), None)
        if twice is not None:
            raise ValueError(f"the key of {value[twice].name} appears more than once: a key has one name and one role")
        return value

    @field_validator("issuers")
    @classmethod
    def _each_issuer_once(cls, value: tuple[IssuerSettings, ...]) -> tuple[IssuerSettings, ...]:
        if len({entry.issuer for entry in value}) < len(value):
            raise ValueError("an issuer appears more than once: give it all its grants in one entry")
        return value
