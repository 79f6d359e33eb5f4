"""A REST catalog: pyiceberg knows how it is configured and how one is let in; the request for a pointer is ours.

Source: Iceberg's `open-api/rest-catalog-open-api.yaml`, `loadTable`: with `snapshots=refs` only the snapshots of
branches and tags are told, and a server that gives ETags answers 304 where the table has not changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import requests
from pydantic import ValidationError
from pyiceberg.catalog.rest import RestCatalog as Client
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    NoSuchNamespaceError,
    OAuthError,
    RESTError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)

from lakewarden.planners.formats.iceberg.catalogs.bounded_http import BoundedAdapter
from lakewarden.planners.formats.iceberg.catalogs.dotted import listing_of
from lakewarden.planners.formats.iceberg.catalogs.gate import SEVERAL, BusyError, RefusedError, UnreachableError
from lakewarden.planners.formats.iceberg.catalogs.settings import RestCatalog
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.ports import Listing
from lakewarden.planners.settings import shown

_REFUSALS = (401, 419)
"""Of who asks. 403 is of what is asked for, and says nothing of anything else."""
_FORBIDDEN, _NOT_MODIFIED, _NOT_FOUND = 403, 304, 404
_BUSY = (429, 503)
_DELEGATION = "X-Iceberg-Access-Delegation"
_SECRETS = ("s3.access-key-id", "s3.session-token", "gcs.oauth2.token", "adls.sas-token", "adls.auth.")
"""What a server hands out to read and write a table's files with (`storage-credentials`, and before them `config`)."""
_SIGNS = "s3.remote-signing-enabled"
_REDIRECTS = 5
_LEVELS = 32
_LONGEST_ETAG = 1024
_TIMEOUT = "lakewarden.timeout-seconds"
_AT_ONCE = "lakewarden.requests-at-once"


class RestServer:
    """One server, opened. For any thread."""

    was_let_in = True

    def __init__(self, name: str, settings: RestCatalog, etags: dict[str, tuple[str, str]]) -> None:
        """Ask the server for its configuration. `etags`, by table, with what they stand for, outlive this opening.

        Raises what `metadata_file` raises.
        """
        self._name = name
        self._settings = settings
        self._seen = etags
        try:
            self._client = _Client(name, **_properties(settings))
        except ForbiddenError as refused:  # nothing is asked for yet but to be let in
            raise self._refused(_in_one_line(refused)) from refused
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
            raise self._not_told(answer, identifier)
        location = _metadata_location(answer)
        if location is None:
            raise TemporaryError(f"the catalog {self._name} answers, but not with the metadata location of a table")
        if (given := answer.headers.get("ETag")) is not None and len(given) <= _LONGEST_ETAG:
            self._seen[identifier] = (given, location)
        return location

    def hands_out(self, identifier: str) -> str | None:
        """Return by what means the server would let us at the table's files, if we asked it to: for people, without any
        secret. None where it would not, or does not say. Raises what `metadata_file` raises.
        """
        try:
            answer = self._client.ask_for(identifier, etag="", delegated=True)
        except requests.RequestException as trouble:
            self._raise(trouble)
        return _means(answer) if answer.ok else None

    def tables(self) -> Listing:
        """Return the identifiers of all tables, namespace by namespace.

        One that alone cannot be listed is told with the reason. Raises what `metadata_file` raises where it is not one.
        """
        with self._client.adapter.listing():
            return self._listing()

    def _listing(self) -> Listing:
        found: list[tuple[str, ...]] = []
        unlisted: dict[str, str] = {}
        unanswered = 0
        namespaces: list[tuple[str, ...]] = [()]
        seen: set[tuple[str, ...]] = {()}
        while namespaces:
            namespace = namespaces.pop()
            try:
                below = [one for one in self._below(namespace) if one not in seen and len(one) <= _LEVELS]
                seen.update(below)
                namespaces += below
                found += self._tables_of(namespace)
                unanswered = 0
            except RefusedError:
                raise
            except LakewardenError as trouble:
                unanswered = unanswered + 1 if isinstance(trouble, UnreachableError | BusyError) else 0
                if not namespace or unanswered >= SEVERAL:
                    raise
                unlisted[".".join(namespace)] = str(trouble)
        return listing_of(found, unlisted=unlisted)

    def _below(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        try:
            return list(self._client.list_namespaces(namespace))
        except NoSuchNamespaceError:
            return []  # dropped since its parent was listed
        except (requests.RequestException, RESTError, ValidationError) as trouble:
            self._raise(trouble)

    def _tables_of(self, namespace: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if not namespace:
            return iter(())
        try:
            return iter(self._client.list_tables(namespace))
        except NoSuchNamespaceError:
            return iter(())
        except (requests.RequestException, RESTError, ValidationError) as trouble:
            self._raise(trouble)

    def _raise(self, trouble: Exception) -> NoReturn:
        said = _in_one_line(trouble)
        match trouble:
            case UnauthorizedError() | AuthorizationExpiredError() | OAuthError():
                raise self._refused(said) from trouble
            case ForbiddenError():
                raise PermanentError(f"the catalog {self._name} forbids it to us: {said}") from trouble
            case TooManyRequestsError() | ServiceUnavailableError():
                raise BusyError(f"the catalog {self._name} does not answer: {said}") from trouble
            case requests.Timeout():
                raise UnreachableError(f"the catalog {self._name} has not answered in time") from trouble
            case requests.ConnectionError():
                raise UnreachableError(f"the catalog {self._name} does not answer: {said}") from trouble
            case _:
                raise TemporaryError(f"the catalog {self._name} does not answer: {said}") from trouble

    def _refused(self, said: str) -> RefusedError:
        given = "token" if self._settings.credential is None else "credential"
        return RefusedError(f"the catalog {self._name} refuses us: see catalogs.{self._name}.{given} ({said})")

    def _not_told(self, answer: requests.Response, identifier: str) -> LakewardenError:
        status, said = answer.status_code, _said(answer)
        if status in _REFUSALS:
            return self._refused(said)
        if status == _FORBIDDEN:
            return PermanentError(
                f"the catalog {self._name} forbids us {identifier}: let who is named in catalogs.{self._name} load it, "
                f"or exclude it ({said})"
            )
        if status in _BUSY:
            return BusyError(f"the catalog {self._name} does not answer: {said}", after=_retry_after(answer))
        if status >= 500:
            return TemporaryError(f"the catalog {self._name} does not answer of {identifier}: {said}")
        return PermanentError(f"the catalog {self._name} takes our request for none: {said}; see catalogs.{self._name}")


class _Client(Client):
    """pyiceberg's client, which by itself waits for ever, and believes all it is told."""

    adapter: BoundedAdapter

    def ask_for(self, identifier: str, *, etag: str, delegated: bool = False) -> requests.Response:
        """Load a table, but for the case that it is still what the server called `etag` (if that is not empty);
        `delegated` with the means to reach its files.
        """
        address = self.url("namespaces/{namespace}/tables/{table}", **self._split_identifier_for_path(identifier))
        headers = {"If-None-Match": etag} if etag else {}
        headers |= {_DELEGATION: "vended-credentials,remote-signing"} if delegated else {}
        return self._session.get(address, params={"snapshots": "refs"}, headers=headers)

    def _create_session(self) -> requests.Session:
        session = super()._create_session()
        session.headers.pop(_DELEGATION, None)  # we do not ask for credentials to the table's files
        session.max_redirects = _REDIRECTS
        self.adapter = adapter = BoundedAdapter(float(self.properties[_TIMEOUT]), int(self.properties[_AT_ONCE]))
        for scheme in ("http://", "https://"):
            session.mount(scheme, adapter)
        return session


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
        _AT_ONCE: str(settings.requests_at_once),
    }
    return {**{key: value for key, value in given.items() if value is not None}, **settings.properties}


def _metadata_location(answer: requests.Response) -> str | None:
    try:
        location = answer.json().get("metadata-location")
    except (ValueError, AttributeError, RecursionError):
        return None
    return location if isinstance(location, str) else None


def _means(answer: requests.Response) -> str | None:
    try:
        told = answer.json()
        given = dict(told.get("config") or {})
        for one in told.get("storage-credentials") or ():
            given |= one["config"]
        keys = sorted(key for key in given if key.startswith(_SECRETS))
        signs = str(given.get(_SIGNS, "")).lower() == "true"
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
        return None
    if keys:
        return f"hands out credentials to the table's files ({shown(keys[0])})"
    return f"signs each request to the table's files ({_SIGNS})" if signs else None


def _retry_after(answer: requests.Response) -> float | None:
    """Return for how many seconds the server wants no request; None where it says nothing, or a date."""
    try:
        return max(float(answer.headers.get("Retry-After", "")), 0.0)
    except ValueError:
        return None


def _in_one_line(trouble: Exception) -> str:
    return " ".join(str(trouble).split()) or type(trouble).__name__


def _said(answer: requests.Response) -> str:
    """Return what a server says of a refusal: its status, and the message of an error as the protocol has it."""
    try:
        message = str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        message = answer.reason or ""
    return f"{answer.status_code} {' '.join(message.split())[:200]}"
