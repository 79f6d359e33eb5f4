"""Credentials that a REST catalog hands out. They give access to the files of one table, for a limited time.

Source: Iceberg's `open-api/rest-catalog-open-api.yaml` (`LoadTableResult`, `LoadCredentialsResponse`), and the names of
`S3FileIOProperties` and `AwsClientProperties` in Iceberg 1.11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.storage.locations import canonical_scheme

RENEWED_BEFORE = 300.0
"""Seconds. Credentials are renewed so long before they end, as Iceberg's own provider does. Credentials with a short
life are renewed after four fifths of it."""

ASSUMED_LIFE = 900.0
"""Seconds. If the answer names no end of the credentials, they are used for so long. Amazon's token service issues no
shorter sessions."""

SHORTEST_USE = 5.0
"""Seconds. Credentials are used for at least so long, because the clock of the catalog may be behind."""

_ACCESS_KEY, _SECRET_KEY, _TOKEN = "s3.access-key-id", "s3.secret-access-key", "s3.session-token"
_ENDS_AT = "s3.session-token-expires-at-ms"
_ENDPOINT, _PATH_STYLE = "s3.endpoint", "s3.path-style-access"
_REGIONS = ("client.region", "s3.region")
_REFRESH, _MAY_REFRESH = "client.refresh-credentials-endpoint", "client.refresh-credentials-enabled"
_PLAIN = (_ENDPOINT, _PATH_STYLE, *_REGIONS, _REFRESH, _MAY_REFRESH)
"""Properties that come with credentials and are no secrets."""

_EVERYWHERE = "s3"
"""The prefix of credentials that name no place. They are for every file in S3."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VendedCredential:
    """Keys for the files below one prefix, and the address of their store. `ends_at` is in seconds since the epoch."""

    prefix: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    token: str | None = field(repr=False)
    ends_at: float | None
    endpoint: str | None
    region: str | None
    path_style: bool

    def covers(self, location: str) -> bool:
        """Return whether the credential is for the file or folder at a canonical location."""
        if self.prefix == _EVERYWHERE:
            return location.startswith("s3://")
        return location == self.prefix or location.startswith(f"{self.prefix}/")

    def secrets(self) -> tuple[str, ...]:
        """Return the values that no message may contain, the longest first."""
        texts = (self.access_key, self.secret_key, self.token or "")
        return tuple(sorted(filter(None, texts), key=len, reverse=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class Vended:
    """The answer of a catalog for one table. `plain` has the properties beside the credentials."""

    credentials: tuple[VendedCredential, ...] = ()
    plain: Mapping[str, str] = field(default_factory=dict)

    @property
    def refresh(self) -> str | None:
        """Return the address for new credentials, as the catalog spells it. None if the catalog names none."""
        enabled = self.plain.get(_MAY_REFRESH, "true").lower() == "true"
        return self.plain.get(_REFRESH) if enabled else None

    def of(self, location: str) -> VendedCredential | None:
        """Return the credential with the longest prefix of a canonical location."""
        fitting = [credential for credential in self.credentials if credential.covers(location)]
        return max(fitting, key=lambda credential: len(credential.prefix), default=None)

    def renewed_at(self, asked_at: float) -> float:
        """Return when credentials of `asked_at` must be renewed, in seconds since the epoch."""
        return min(
            (_renewed_at(credential, asked_at) for credential in self.credentials), default=asked_at + SHORTEST_USE
        )

    def ends_at(self, asked_at: float) -> float:
        """Return when the last of the credentials of `asked_at` ends, in seconds since the epoch."""
        return max((_ends_at(credential, asked_at) for credential in self.credentials), default=asked_at)


def _ends_at(credential: VendedCredential, asked_at: float) -> float:
    return asked_at + ASSUMED_LIFE if credential.ends_at is None else credential.ends_at


def _renewed_at(credential: VendedCredential, asked_at: float) -> float:
    end = _ends_at(credential, asked_at)
    before = min(RENEWED_BEFORE, (end - asked_at) / 5)
    return max(end - before, asked_at + SHORTEST_USE)


def vended(answer: object, *, given: Mapping[str, str], known: Vended | None = None) -> Vended:
    """Return the credentials in an answer: a loaded table (`LoadTableResult`), or new credentials alone
    (`LoadCredentialsResponse`).

    `given` are the properties of the catalog itself. `known` is the earlier answer: new credentials come without the
    other properties. Raises TemporaryError for an answer of another form.
    """
    try:
        config = _texts(_of(answer, "config"))
        lent = [_lent(entry) for entry in _of(answer, "storage-credentials") or ()]
    except (AttributeError, TypeError, ValueError, KeyError) as wrong:
        raise TemporaryError("its answer is not one of the protocol") from wrong
    plain = {key: value for key, value in given.items() if key in _PLAIN and isinstance(value, str)}
    plain |= {} if known is None else known.plain
    plain |= {key: value for key, value in config.items() if key in _PLAIN}
    candidates = [_credential(prefix, {**plain, **properties}) for prefix, properties in lent if _is_of_s3(prefix)]
    if not any(candidates):
        candidates = [_credential(_EVERYWHERE, {**plain, **config})]
    return Vended(credentials=tuple(filter(None, candidates)), plain=plain)


def _of(answer: object, key: str) -> Any:
    if not isinstance(answer, Mapping):
        raise TypeError("no object")
    return answer.get(key)


def _lent(entry: Any) -> tuple[str, dict[str, str]]:
    prefix = entry["prefix"]
    scheme, separator, path = prefix.partition("://")
    return f"{canonical_scheme(scheme)}{separator}{path.rstrip('/')}", _texts(entry["config"])


def _texts(properties: Any) -> dict[str, str]:
    """Return the properties as texts. Some servers send numbers and booleans."""
    if properties is not None and not isinstance(properties, Mapping):
        raise TypeError("no object")
    return {key: _text(value) for key, value in (properties or {}).items() if value is not None}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_of_s3(prefix: str) -> bool:
    return prefix == _EVERYWHERE or prefix.startswith("s3://")


def _credential(prefix: str, properties: Mapping[str, str]) -> VendedCredential | None:
    """Return the credential. None if a key is missing."""
    if not properties.get(_ACCESS_KEY) or not properties.get(_SECRET_KEY):
        return None
    return VendedCredential(
        prefix=_EVERYWHERE if prefix == "s3://" else prefix,
        access_key=properties[_ACCESS_KEY],
        secret_key=properties[_SECRET_KEY],
        token=properties.get(_TOKEN) or None,
        ends_at=_moment(properties.get(_ENDS_AT)),
        endpoint=properties.get(_ENDPOINT) or None,
        region=next(filter(None, map(properties.get, _REGIONS)), None),
        path_style=properties.get(_PATH_STYLE, "").lower() == "true",
    )


def _moment(milliseconds: str | None) -> float | None:
    try:
        return None if milliseconds is None else int(milliseconds) / 1000
    except ValueError:
        return None
