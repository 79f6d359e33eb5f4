"""A REST catalog: pyiceberg knows how it is configured and how one is let in; the request for a pointer is ours.

Source: Iceberg's `open-api/rest-catalog-open-api.yaml`, `loadTable`: with `snapshots=refs` only the snapshots of
branches and tags are told, and a server that gives ETags answers 304 where the table has not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import requests
from pydantic import ValidationError
from pyiceberg.catalog.rest import RestCatalog as Client
from pyiceberg.exceptions import ForbiddenError, NoSuchNamespaceError, RESTError, UnauthorizedError
from requests.adapters import HTTPAdapter

from lakewarden.planners.formats.iceberg.catalogs import RestCatalog
from lakewarden.planners.formats.iceberg.gate import RefusedError
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError

_REFUSALS = (401, 403, 419)
_NOT_MODIFIED, _NOT_FOUND, _TOO_MANY = 304, 404, 429
_TIMEOUT = "lakewarden.timeout-seconds"


class RestServer:
    """One server, opened. For any thread."""

    def __init__(self, name: str, settings: RestCatalog) -> None:
        """Ask the server for its configuration. Raises what `metadata_file` raises."""
        self._name = name
        self._settings = settings
        self._seen: dict[str, tuple[str, str]] = {}
        try:
            self._client = _Client(name, **_properties(settings))
        except (requests.RequestException, RESTError, ValidationError, ValueError) as trouble:
            self._raise(trouble)

    def metadata_file(self, identifier: str) -> str:
        """Return the table's metadata location: one request, whose answer is short where nothing has changed."""
        etag, known = self._seen.get(identifier, ("", ""))
        try:
            answer = self._client.ask_for(identifier, etag=etag)
        except requests.RequestException as trouble:
            self._raise(trouble)
        if answer.status_code == _NOT_MODIFIED:
            return known
        if answer.status_code == _NOT_FOUND:
            raise PermanentError(f"the catalog {self._name} has no table {identifier}: {_said(answer)}")
        if not answer.ok:
            raise self._refused_or_down(answer.status_code, _said(answer))
        location = _metadata_location(answer)
        if location is None:
            raise TemporaryError(f"the catalog {self._name} answers, but not with the metadata location of a table")
        if (given := answer.headers.get("ETag")) is not None:
            self._seen[identifier] = (given, location)
        return location

    def tables(self) -> Sequence[str]:
        """Return the identifiers of all tables, namespace by namespace."""
        found: list[str] = []
        namespaces = [()]
        try:
            while namespaces:
                namespace = namespaces.pop()
                below = self._client.list_namespaces(namespace)
                namespaces += [one for one in below if one != namespace]
                if namespace:
                    found += [".".join(table) for table in self._client.list_tables(namespace)]
        except NoSuchNamespaceError as gone:
            raise TemporaryError(f"the catalog {self._name} changed while it was listed: {gone}") from gone
        except (requests.RequestException, RESTError, ValidationError) as trouble:
            self._raise(trouble)
        return sorted(found)

    def _raise(self, trouble: Exception) -> NoReturn:
        said = " ".join(str(trouble).split()) or type(trouble).__name__
        match trouble:
            case UnauthorizedError() | ForbiddenError():
                raise self._refused_or_down(401, said) from trouble
            case requests.Timeout():
                raise TemporaryError(f"the catalog {self._name} has not answered in time") from trouble
            case _:
                raise TemporaryError(f"the catalog {self._name} does not answer: {said}") from trouble

    def _refused_or_down(self, status: int, said: str) -> LakewardenError:
        if status in _REFUSALS:
            given = "token" if self._settings.credential is None else "credential"
            return RefusedError(f"the catalog {self._name} refuses us: see catalogs.{self._name}.{given} ({said})")
        if status >= 500 or status == _TOO_MANY:
            return TemporaryError(f"the catalog {self._name} does not answer: {said}")
        return PermanentError(f"the catalog {self._name} takes our request for none: {said}; see catalogs.{self._name}")


class _Client(Client):
    """pyiceberg's client, which by itself waits for ever."""

    def ask_for(self, identifier: str, *, etag: str) -> requests.Response:
        """Load a table, but for the case that it is still what the server called `etag` (if that is not empty)."""
        address = self.url("namespaces/{namespace}/tables/{table}", **self._split_identifier_for_path(identifier))
        headers = {"If-None-Match": etag} if etag else {}
        return self._session.get(address, params={"snapshots": "refs"}, headers=headers)

    def _create_session(self) -> requests.Session:
        session = super()._create_session()
        session.headers.pop("X-Iceberg-Access-Delegation", None)  # we do not ask for credentials to the table's files
        adapter = _InTime(float(self.properties[_TIMEOUT]))
        for scheme in ("http://", "https://"):
            session.mount(scheme, adapter)
        return session


class _InTime(HTTPAdapter):
    """Gives up a request that is not answered within so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def send(self, request: requests.PreparedRequest, *arguments: Any, **options: Any) -> requests.Response:
        return super().send(request, *arguments, **{**options, "timeout": self._seconds})


def _properties(settings: RestCatalog) -> dict[str, str]:
    """Return pyiceberg's properties. The place of tokens is named, since it warns where it has to guess it."""
    given = {
        "uri": settings.uri,
        "warehouse": settings.warehouse,
        "token": None if settings.token is None else settings.token.value(),
        "credential": None if settings.credential is None else settings.credential.value(),
        "oauth2-server-uri": settings.oauth2_server_uri or f"{settings.uri.rstrip('/')}/v1/oauth/tokens",
        "scope": settings.scope,
        _TIMEOUT: str(settings.timeout.total_seconds()),
    }
    return {**{key: value for key, value in given.items() if value is not None}, **settings.properties}


def _metadata_location(answer: requests.Response) -> str | None:
    try:
        location = answer.json().get("metadata-location")
    except (ValueError, AttributeError):
        return None
    return location if isinstance(location, str) else None


def _said(answer: requests.Response) -> str:
    """Return what a server says of a refusal: its status, and the message of an error as the protocol has it."""
    try:
        message = str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = answer.reason or ""
    return f"{answer.status_code} {' '.join(message.split())[:200]}"
