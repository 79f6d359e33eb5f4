"""A small Iceberg REST catalog over pyiceberg's SqlCatalog, as its open-api describes one: for any client."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from tests.support.serving import Handler, serving

_LEVELS = "\x1f"


class _Status(Exception):  # noqa: N818 - an answer, and no error of this program
    """An answer other than 200."""

    def __init__(self, status: int, kind: str = "", message: str = "") -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


@dataclass
class IcebergRest:
    """A running server. `token` is what it asks for, if anything; `seen` are the requests with their statuses.

    While `status` is set every request is answered with it; `statuses` are those of requests whose address holds a
    text, `retry_after` is what is said with 429 and 503. `delay` is how long each answer takes; `delays` likewise by a
    text. `most_at_once` is how many requests were under way together. `handed_out` is told of a table besides to who
    asks for the means to reach its files. A `verify` judges the signature of each request, by its method, address,
    headers and body.
    """

    catalog: SqlCatalog
    token: str | None = None
    credential: str | None = None
    etags: bool = True
    handed_out: dict[str, Any] = field(default_factory=dict)
    verify: Callable[[str, str, Message, bytes], bool] | None = None
    status: int | None = None
    statuses: dict[str, int] = field(default_factory=dict)
    retry_after: int | None = None
    delay: float = 0
    delays: dict[str, float] = field(default_factory=dict)
    at_once: int = 0
    most_at_once: int = 0
    seen: list[tuple[str, int]] = field(default_factory=list)
    arrived: int = 0
    goes_on: threading.Event = field(default_factory=threading.Event)
    port: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def uri(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def loads(self) -> list[int]:
        """Return the statuses of the tables that were asked for, and forget the requests."""
        found = [status for request, status in self.seen if request.startswith("GET") and "/tables/" in request]
        self.seen.clear()
        return found


@contextmanager
def iceberg_rest(folder: Path, *, files: Mapping[str, str] | None = None, **settings: Any) -> Iterator[IcebergRest]:
    """Start a server whose tables lie in `folder`, with an empty namespace `sales`. `files` says where else they lie,
    and how the server reads them there, in the properties of pyiceberg.
    """
    uri = f"sqlite:///{folder}/rest.db?check_same_thread=false"
    catalog = SqlCatalog("rest", uri=uri, **(files or {"warehouse": f"file://{folder}/warehouse"}))
    catalog.create_namespace_if_not_exists("sales")
    rest = IcebergRest(catalog=catalog, **settings)
    rest.goes_on.set()
    try:
        with serving(_handler(rest)) as rest.port:
            yield rest
    finally:
        catalog.engine.dispose()


def _handler(rest: IcebergRest) -> type[Handler]:
    class Rest(Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve(lambda path, query, _: _read(rest, path, query, self.headers))

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            self._serve(lambda path, _, body: (_write(rest, path, body), {}))

        def _serve(self, act: Callable[[Sequence[str], Mapping[str, list[str]], bytes], Any]) -> None:
            body = self.body()
            parts = urlsplit(self.path)
            path = [unquote(part) for part in parts.path.strip("/").split("/")][1:]
            with rest.lock:
                rest.arrived += 1
                rest.at_once += 1
                rest.most_at_once = max(rest.most_at_once, rest.at_once)
            try:
                rest.goes_on.wait()
                time.sleep(max(rest.delay, *(by for text, by in rest.delays.items() if text in self.path), 0))
                status = next((by for text, by in rest.statuses.items() if text in self.path), rest.status)
                if status is not None:
                    raise _Status(status, "ServerError", "out of order")
                if rest.verify is not None and not rest.verify(self.command, self.path, self.headers, body):
                    raise _Status(403, "ForbiddenException", "the signature does not match")
                if path != ["oauth", "tokens"]:
                    self._check_token()
                with rest.lock:
                    answer, headers = act(path, parse_qs(parts.query), body)
                self._answer(200, answer, headers)
            except _Status as other:
                error = {"error": {"message": str(other), "type": other.kind, "code": other.status}}
                told = {"Retry-After": str(rest.retry_after)} if rest.retry_after is not None else {}
                self._answer(other.status, error if other.kind else None, told)
            except (NoSuchTableError, NoSuchNamespaceError) as missing:
                kind = type(missing).__name__.replace("Error", "Exception")
                self._answer(404, {"error": {"message": str(missing), "type": kind, "code": 404}}, {})
            except CommitFailedException as lost:
                error = {"error": {"message": str(lost), "type": "CommitFailedException", "code": 409}}
                self._answer(409, error, {})
            except (OSError, ValueError) as damaged:  # a file of the table is gone, or is no metadata
                error = {"error": {"message": str(damaged), "type": "ServiceFailureException", "code": 500}}
                self._answer(500, error, {})

        def _check_token(self) -> None:
            if rest.token is not None and self.headers.get("Authorization") != f"Bearer {rest.token}":
                raise _Status(401, "NotAuthorizedException", "not authorized")

        def _answer(self, status: int, answer: Any, headers: Mapping[str, str]) -> None:
            with rest.lock:  # before the client knows that it may send the next one
                rest.at_once -= 1
            rest.seen.append((f"{self.command} {self.path}", status))
            content = b"" if answer is None else json.dumps(answer).encode()
            self.answer(status, content, {**headers, "Content-Type": "application/json"})

    return Rest


def _read(
    rest: IcebergRest, path: Sequence[str], query: Mapping[str, list[str]], asked: Message
) -> tuple[Any, Mapping[str, str]]:
    match path:
        case ["config"]:
            return {"defaults": {}, "overrides": {}}, {}
        case ["namespaces"]:
            parent = tuple(query["parent"][0].split(_LEVELS)) if "parent" in query else ()
            return {"namespaces": [list(one) for one in rest.catalog.list_namespaces(parent)]}, {}
        case ["namespaces", namespace]:
            levels = namespace.split(_LEVELS)
            return {"namespace": levels, "properties": rest.catalog.load_namespace_properties(tuple(levels))}, {}
        case ["namespaces", namespace, "tables"]:
            found = rest.catalog.list_tables(tuple(namespace.split(_LEVELS)))
            return {"identifiers": [{"namespace": list(one[:-1]), "name": one[-1]} for one in found]}, {}
        case ["namespaces", _, "tables", _, "credentials"]:
            return {"storage-credentials": rest.handed_out.get("storage-credentials", [])}, {}
        case ["namespaces", namespace, "tables", table]:
            loaded = rest.catalog.load_table((*namespace.split(_LEVELS), table))
            etag = f'"{hashlib.sha256(loaded.metadata_location.encode()).hexdigest()[:16]}"'
            if asked.get("If-None-Match") == etag:
                raise _Status(304)
            headers = {"ETag": etag} if rest.etags else {}
            delegated = rest.handed_out if "X-Iceberg-Access-Delegation" in asked else {}
            return {**_loaded(loaded, only_refs=query.get("snapshots") == ["refs"]), **delegated}, headers
        case _:
            raise _Status(404, "NoSuchEndpoint", "/".join(path))


def _write(rest: IcebergRest, path: Sequence[str], body: bytes) -> Any:
    match path:
        case ["oauth", "tokens"]:
            given = parse_qs(body.decode())
            if f"{given.get('client_id', [''])[0]}:{given.get('client_secret', [''])[0]}" != rest.credential:
                raise _Status(401, "invalid_client", "wrong credential")
            return {"access_token": rest.token, "token_type": "bearer", "expires_in": 3600}
        case ["namespaces", namespace, "tables"]:
            wanted = CreateTableRequest.model_validate({"location": None, **json.loads(body)})
            made = rest.catalog.create_table(
                (*namespace.split(_LEVELS), wanted.name),
                schema=wanted.table_schema,
                location=wanted.location,
                partition_spec=wanted.partition_spec or UNPARTITIONED_PARTITION_SPEC,
                sort_order=wanted.write_order or UNSORTED_SORT_ORDER,
                properties=dict(wanted.properties),
            )
            return _loaded(made)
        case ["namespaces", namespace, "tables", table]:
            levels = namespace.split(_LEVELS)
            named = {**json.loads(body), "identifier": {"namespace": levels, "name": table}}
            commit = CommitTableRequest.model_validate(named)
            current = rest.catalog.load_table((*levels, table))
            rest.catalog.commit_table(current, commit.requirements, commit.updates)
            return _loaded(rest.catalog.load_table((*levels, table)))
        case ["tables", "rename"]:
            names = json.loads(body)
            source, target = ((*names[of]["namespace"], names[of]["name"]) for of in ("source", "destination"))
            rest.catalog.rename_table(source, target)
            raise _Status(204)
        case [*_, "metrics"]:
            raise _Status(204)
        case _:
            raise _Status(404, "NoSuchEndpoint", "/".join(path))


def _loaded(table: Table, *, only_refs: bool = False) -> Mapping[str, Any]:
    """Return a LoadTableResult, with the metadata as it is in the file."""
    with table.io.new_input(table.metadata_location).open() as file:
        metadata = json.loads(file.read())
    if only_refs:
        named = {ref["snapshot-id"] for ref in metadata.get("refs", {}).values()}
        metadata["snapshots"] = [one for one in metadata.get("snapshots", []) if one["snapshot-id"] in named]
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}
