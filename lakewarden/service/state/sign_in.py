"""The sign-in with an OpenID Connect provider: the authorization code flow with PKCE (RFC 7636), by Authlib."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx
from authlib.common.errors import AuthlibBaseError
from authlib.common.security import generate_token
from authlib.integrations.httpx_client import OAuth2Client

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.service.config.identity import IssuerSettings
from lakewarden.service.state.identity import Fetch, endpoint, fetched

_SECONDS = 5.0
_LONGEST_COOKIE = 4000
"""A browser keeps 4096 bytes, with the name of the cookie and its attributes."""


class SignInBegun(NamedTuple):
    """Where the browser goes to, and what it brings back in a cookie."""

    address: str
    cookie: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedIn:
    """The token of a person, and the page that the person wanted to see."""

    token: str
    to: str


class SignIns:
    """The issuers with a `client_id`, by the name that the page shows. Any thread may ask."""

    def __init__(self, issuers: Iterable[IssuerSettings], *, back: str, fetch: Fetch = fetched) -> None:
        """`back` is where an issuer sends the browser back to, as the issuer knows it."""
        self._issuers = {entry.issuer.partition("://")[2]: entry for entry in issuers if entry.client_id is not None}
        self._back = back
        self._fetch = fetch
        self.is_secure = back.startswith("https:")

    @property
    def names(self) -> list[str]:
        """The names of the issuers, in the order of the configuration."""
        return list(self._issuers)

    def begin(self, name: str, *, to: str) -> SignInBegun:
        """Send a browser to an issuer. Raises PermanentError for an unknown name, and TemporaryError if the issuer does
        not answer.
        """
        settings = self._of(name)
        verifier = generate_token(64)
        with self._client(settings) as client:
            where = endpoint(settings, "authorization_endpoint", self._fetch)
            address, state = client.create_authorization_url(where, code_verifier=verifier)
        return SignInBegun(address, _written({"name": name, "state": state, "verifier": verifier, "to": to}))

    def finish(self, cookie: str, address: str) -> SignedIn:
        """Exchange the code in the `address` that the browser came back with for a token. Its `cookie` shows that this
        browser began the sign-in.

        Raises PermanentError if it did not, or the issuer refuses the code, and TemporaryError if it does not answer.
        """
        begun = _read(cookie)
        settings = self._of(begun["name"])
        try:
            with self._client(settings) as client:
                answer = client.fetch_token(
                    endpoint(settings, "token_endpoint", self._fetch),
                    authorization_response=address,
                    state=begun["state"],
                    code_verifier=begun["verifier"],
                )
        except AuthlibBaseError as refused:
            raise PermanentError(f"{begun['name']} did not sign you in: {refused}"[:300]) from refused
        except (httpx.HTTPError, ValueError) as away:
            raise TemporaryError(f"{begun['name']} does not answer as it should: {away}"[:300]) from away
        token = str(answer.get("id_token") or "")
        if not token:
            raise PermanentError(f"{begun['name']} gave no ID token: openid must be one of sign_in_scopes")
        if len(token) > _LONGEST_COOKIE:
            raise PermanentError(
                f"the token of {begun['name']} has {len(token)} bytes, and a browser keeps {_LONGEST_COOKIE}: let the "
                "issuer put fewer claims into ID tokens, such as the groups of this application alone"
            )
        return SignedIn(token=token, to=begun["to"])

    def _of(self, name: str) -> IssuerSettings:
        settings = self._issuers.get(name)
        if settings is None:
            raise PermanentError("there is no such issuer with a client_id under access.issuers")
        return settings

    def _client(self, settings: IssuerSettings) -> OAuth2Client:
        secret = None if settings.client_secret is None else settings.client_secret.value()
        return OAuth2Client(
            settings.client_id,
            secret,
            token_endpoint_auth_method="none" if secret is None else "client_secret_basic",
            scope=" ".join(settings.sign_in_scopes),
            redirect_uri=self._back,
            code_challenge_method="S256",
            verify=ssl.create_default_context(cafile=settings.authority),
            timeout=_SECONDS,
        )


def _written(begun: Mapping[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(begun).encode()).decode()


def _read(cookie: str) -> Mapping[str, str]:
    try:
        begun: Any = json.loads(base64.urlsafe_b64decode(cookie))
        return {key: str(begun[key]) for key in ("name", "state", "verifier", "to")}
    except (ValueError, TypeError, KeyError, RecursionError) as wrong:
        raise PermanentError(
            "this browser did not begin this sign-in, or began it more than ten minutes ago: sign in again"
        ) from wrong
