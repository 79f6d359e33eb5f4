"""A REST catalog. pyiceberg reads its configuration and logs in. The request for a pointer is Lakewarden's own.

Source: Iceberg's `open-api/rest-catalog-open-api.yaml`, `loadTable`. With `snapshots=refs` the answer has only the
snapshots of branches and tags. A server with ETags answers 304 if the table has not changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import requests
from pydantic import ValidationError
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

from lakewarden.planners.formats.iceberg.catalogs.answers import LoginRefusedError, UnansweredError, listing_of
from lakewarden.planners.formats.iceberg.catalogs.bounded_http import signer
from lakewarden.planners.formats.iceberg.catalogs.rest_client import (
    AT_ONCE,
    TIMEOUT,
    RestClient,
    in_one_line,
    server_message,
)
from lakewarden.planners.formats.iceberg.catalogs.settings import RestCatalog
from lakewarden.planners.formats.iceberg.catalogs.vended.credentials import Vended, vended
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.ports import Listing

_REFUSALS = (401, 419)
"""The statuses that refuse the login. 403 refuses one request, and says nothing of others."""
_FORBIDDEN, _NOT_MODIFIED, _NOT_FOUND = 403, 304, 404
_BUSY = (429, 503)
_CREDENTIALS = "vended-credentials"
_LEVELS = 32
_LONGEST_ETAG = 1024
_SEVERAL = 3
"""If so many namespaces in a row got no answer, the listing is given up."""


class RestServer:
    """One server, opened. Any thread may use it."""

    def __init__(self, name: str, settings: RestCatalog, etags: dict[str, tuple[str, str]]) -> None:
        """Ask the server for its configuration. `etags` outlive this object: each table's ETag and the location that it
        stands for.

        Raises the same errors as `metadata_file`.
        """
        self._name = name
        self._settings = settings
        self._seen = etags
        try:
            sign = None if settings.sigv4 is None else signer(settings.sigv4, catalog=name)
            self._client = RestClient(name, sign, _properties(settings))
        except ForbiddenError as refused:  # nothing but the login was asked for
            raise self._refused(in_one_line(refused)) from refused
        except (requests.RequestException, RESTError, ValidationError, ValueError) as error:
            self._raise(error)

    def metadata_file(self, identifier: str) -> str:
        """Return the table's metadata location. It takes one request. The answer is short if nothing has changed."""
        etag, last_location = self._seen.get(identifier, ("", ""))
        try:
            answer = self._client.ask_for(identifier, etag=etag)
        except requests.RequestException as error:
            self._raise(error)
        if answer.status_code == _NOT_MODIFIED:
            return last_location
        if not answer.ok:
            raise self._not_told(answer, identifier)
        location = _metadata_location(answer)
        if location is None:
            raise TemporaryError(f"the catalog {self._name} answers, but not with the metadata location of a table")
        if (given := answer.headers.get("ETag")) is not None and len(given) <= _LONGEST_ETAG:
            self._seen[identifier] = (given, location)
        return location

    def vended(self, identifier: str, known: Vended | None) -> Vended:
        """Return the credentials to a table's files. If the `known` ones came with an address for new ones, that
        address is asked first. Otherwise they come with the table. Raises the same errors as `metadata_file`.
        """
        try:
            answer = self._client.ask_anew(known.refresh) if known is not None and known.refresh else None
            if answer is None or not answer.ok:
                answer, known = self._client.ask_for(identifier, etag="", delegated=_CREDENTIALS), None
        except requests.RequestException as error:
            self._raise(error)
        if not answer.ok:
            raise self._not_told(answer, identifier)
        try:
            return vended(answer.json(), given=self._client.properties, known=known)
        except (ValueError, RecursionError, TemporaryError):
            raise TemporaryError(
                f"the catalog {self._name} answers, but not with credentials to the files of {identifier}"
            ) from None

    def tables(self) -> Listing:
        """Return the identifiers of all tables, namespace by namespace.

        If one namespace alone cannot be listed, the listing names it with the reason. In other cases it raises the same
        errors as `metadata_file`.
        """
        with self._client.adapter.listing():
            return self._listing()

    def _listing(self) -> Listing:
        tables: list[tuple[str, ...]] = []
        unlisted: dict[str, str] = {}
        unanswered = 0
        namespaces: list[tuple[str, ...]] = [()]
        seen: set[tuple[str, ...]] = {()}
        while namespaces:
            namespace = namespaces.pop()
            try:
                below = [child for child in self._below(namespace) if child not in seen and len(child) <= _LEVELS]
                seen.update(below)
                namespaces += below
                tables += self._tables_of(namespace)
                unanswered = 0
            except LoginRefusedError:
                raise
            except LakewardenError as error:
                unanswered = unanswered + 1 if isinstance(error, UnansweredError) else 0
                if not namespace or unanswered >= _SEVERAL:
                    raise
                unlisted[".".join(namespace)] = str(error)
        return listing_of(tables, unlisted=unlisted)

    def _below(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        try:
            return list(self._client.list_namespaces(namespace))
        except NoSuchNamespaceError:
            return []  # dropped after its parent was listed
        except (requests.RequestException, RESTError, ValidationError) as error:
            self._raise(error)

    def _tables_of(self, namespace: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if not namespace:
            return iter(())
        try:
            return iter(self._client.list_tables(namespace))
        except NoSuchNamespaceError:
            return iter(())
        except (requests.RequestException, RESTError, ValidationError) as error:
            self._raise(error)

    def _raise(self, error: Exception) -> NoReturn:
        message = in_one_line(error)
        match error:
            case UnauthorizedError() | AuthorizationExpiredError() | OAuthError():
                raise self._refused(message) from error
            case ForbiddenError():
                raise PermanentError(f"the catalog {self._name} denies access: {message}") from error
            case TooManyRequestsError() | ServiceUnavailableError():
                raise UnansweredError(f"the catalog {self._name} does not answer: {message}") from error
            case requests.Timeout():
                raise UnansweredError(f"the catalog {self._name} has not answered in time") from error
            case requests.ConnectionError():
                raise UnansweredError(f"the catalog {self._name} does not answer: {message}") from error
            case _:
                raise TemporaryError(f"the catalog {self._name} does not answer: {message}") from error

    def _refused(self, message: str) -> LoginRefusedError:
        given = "token" if self._settings.credential is None else "credential"
        given = given if self._settings.sigv4 is None else "sigv4"
        return LoginRefusedError(
            f"the catalog {self._name} rejects our credentials: check catalogs.{self._name}.{given} ({message})"
        )

    def _not_told(self, answer: requests.Response, identifier: str) -> LakewardenError:
        status, message = answer.status_code, server_message(answer)
        if status == _NOT_FOUND:
            return PermanentError(f"the catalog {self._name} has no table {identifier}: {message}")
        if status in _REFUSALS:
            return self._refused(message)
        if status == _FORBIDDEN:
            return PermanentError(
                f"the catalog {self._name} denies us access to {identifier}: let who is named in "
                f"catalogs.{self._name} load it, "
                f"or exclude it ({message})"
            )
        if status in _BUSY:
            return UnansweredError(f"the catalog {self._name} does not answer: {message}")
        if status >= 500:
            return TemporaryError(f"the catalog {self._name} does not answer for {identifier}: {message}")
        return PermanentError(
            f"the catalog {self._name} rejects our request as malformed: {message}; see catalogs.{self._name}"
        )


def _properties(settings: RestCatalog) -> dict[str, str]:
    """Return pyiceberg's properties. The address for tokens is set, because pyiceberg warns if it has to guess it."""
    given = {
        "uri": settings.uri,
        "warehouse": settings.warehouse,
        "token": None if settings.token is None else settings.token.value(),
        "credential": None if settings.credential is None else settings.credential.value(),
        "oauth2-server-uri": settings.oauth2_server_uri or f"{settings.uri.rstrip('/')}/v1/oauth/tokens",
        "scope": settings.scope,
        TIMEOUT: str(settings.timeout.total_seconds()),
        AT_ONCE: str(settings.requests_at_once),
    }
    return {**{key: value for key, value in given.items() if value is not None}, **settings.properties}


def _metadata_location(answer: requests.Response) -> str | None:
    try:
        location = answer.json().get("metadata-location")
    except (ValueError, AttributeError, RecursionError):
        return None
    return location if isinstance(location, str) else None
