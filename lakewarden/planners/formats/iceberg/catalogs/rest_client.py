"""One connection to a REST catalog: its requests, and the meaning of its answers."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import requests
from pyiceberg.catalog.rest import RestCatalog as Client

from lakewarden.planners.formats.iceberg.catalogs.bounded_http import BoundedAdapter, Sign, SigningAdapter
from lakewarden.planners.model.errors import PermanentError

TIMEOUT = "lakewarden.timeout-seconds"


AT_ONCE = "lakewarden.requests-at-once"


_DELEGATION = "X-Iceberg-Access-Delegation"

_REDIRECTS = 5


def _server(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    return parts.scheme, parts.netloc


class RestClient(Client):
    """pyiceberg's client with bounds. By itself it waits without end, and trusts every answer."""

    adapter: BoundedAdapter

    def __init__(self, name: str, sign: Sign | None, properties: Mapping[str, str]) -> None:
        self._sign = sign  # a session is made before the constructor returns
        super().__init__(name, **properties)

    def ask_anew(self, address: str) -> requests.Response | None:
        """Ask for new credentials at the address that the server named. Return None if that is not on the server
        itself, because no other server may get the token.
        """
        whole = address if "://" in address else f"{self.uri.rstrip('/')}/{address.lstrip('/')}"
        try:
            if _server(whole) != _server(self.uri):
                return None
        except ValueError:  # it is no address
            return None
        return self._session.get(whole)

    def ask_for(self, identifier: str, *, etag: str, delegated: str = "") -> requests.Response:
        """Load a table. If it is still the one that the server called `etag`, the answer is empty. An empty `etag`
        always loads it. Ask for access to its files by the means that `delegated` names.
        """
        address = self.url("namespaces/{namespace}/tables/{table}", **self._split_identifier_for_path(identifier))
        headers = {"If-None-Match": etag} if etag else {}
        headers |= {_DELEGATION: delegated} if delegated else {}
        return self._session.get(address, params={"snapshots": "refs"}, headers=headers)

    def _init_sigv4(self, session: requests.Session) -> None:
        """Sign nothing here: SigningAdapter does. Raises PermanentError if the server's configuration requires
        signatures, and no setting says how to sign.
        """
        if self._sign is None:
            raise PermanentError(
                f"the catalog {self.name} wants signed requests: say service and region as catalogs.{self.name}.sigv4"
            )

    def _create_session(self) -> requests.Session:
        session = super()._create_session()
        session.headers.pop(_DELEGATION, None)  # Lakewarden does not ask for credentials to the table's files
        session.max_redirects = _REDIRECTS
        bounds = float(self.properties[TIMEOUT]), int(self.properties[AT_ONCE])
        self.adapter = adapter = BoundedAdapter(*bounds) if self._sign is None else SigningAdapter(*bounds, self._sign)
        for scheme in ("http://", "https://"):
            session.mount(scheme, adapter)
        return session


def in_one_line(error: Exception) -> str:
    """Return the text of an error without line breaks. It is never empty."""
    return " ".join(str(error).split()) or type(error).__name__


def server_message(answer: requests.Response) -> str:
    """Return what a refusal says: its status, and the message of the error in the form of the protocol."""
    try:
        message = str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        message = answer.reason or ""
    return f"{answer.status_code} {' '.join(message.split())[:200]}"
