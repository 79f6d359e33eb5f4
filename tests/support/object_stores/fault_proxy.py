"""A proxy before an S3 server that spoils what passes through it, in ways that have names."""

from __future__ import annotations

import http.client
import re
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qs, urlsplit

from tests.support.serving import Handler, serving

_CONTENTS = re.compile(rb"<Contents>.*?</Contents>", re.DOTALL)
_KEY = re.compile(rb"<Key>(.*?)</Key>")
_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "keep-alive", "content-length"})
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_INTERNAL = b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"


class StoreFault(StrEnum):
    """What the proxy does to a request that it is told to spoil."""

    SLOW_DOWN = "503 SlowDown"
    INTERNAL_ERROR = "500 InternalError"
    SILENCE = "no answer"
    RESET = "the connection is reset before an answer"
    TRUNCATED_BODY = "the connection ends in the middle of the body"
    SLOW_BODY = "a byte of the body every tenth of a second"
    LOST_RESPONSE = "the request is carried out, and the connection reset instead of an answer"
    LOST_ENTRIES = "a listing leaves out some entries"
    LOST_PAGES = "a listing ends after its first page and says that this was all"
    FAILING_PAGE = "the second page of a listing is a 500"


@dataclass(frozen=True, kw_only=True)
class Spoiling:
    """A fault, the requests it concerns (a pattern of `METHOD /path?query`), and the keys that a listing loses."""

    fault: StoreFault
    requests: re.Pattern[str]
    keys: re.Pattern[str]
    times: int | None = None


@dataclass
class FaultProxy:
    """Listens on a port of its own and hands everything on to `upstream`, signatures and all. Listings come in pages
    of `page` entries where that is set.
    """

    upstream: int
    page: int | None = None
    spoiling: Spoiling | None = None
    seen: list[str] = field(default_factory=list)
    spoiled: int = 0
    port: int = 0

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator[FaultProxy]:
        """Let it listen for as long as the bracket is open."""

        class Spoiler(_Handler):
            proxy = self

        with serving(Spoiler) as self.port:
            yield self

    @contextmanager
    def spoils(self, fault: StoreFault, requests: str = "", keys: str = "", times: int | None = None) -> Iterator[None]:
        """Spoil, for as long as the bracket is open, the requests (the first so many `times`) and the listed keys that
        match.
        """
        self.spoiling = Spoiling(fault=fault, requests=re.compile(requests), keys=re.compile(keys), times=times)
        self.spoiled = 0
        try:
            yield
        finally:
            self.spoiling = None

    def concerned(self, request: str) -> Spoiling | None:
        """Return what to do to a request, if it is to be spoiled."""
        found = self.spoiling
        if found is None or (found.times is not None and self.spoiled >= found.times):
            return None
        return found if found.requests.search(request) else None


class _Handler(Handler):
    protocol_version = "HTTP/1.1"
    proxy: FaultProxy
    pages: Mapping[str, bytes] = {}

    def _pass(self) -> None:
        request = f"{self.command} {self.path}"
        self.proxy.seen.append(request)
        body = self.body()
        spoiling = self.proxy.concerned(request)
        fault = None if spoiling is None else spoiling.fault
        if spoiling is not None and not self._is_listing_fault(fault):
            self.proxy.spoiled += 1
        match fault:
            case StoreFault.SLOW_DOWN:
                return self._answer(503, {}, _SLOW_DOWN)
            case StoreFault.INTERNAL_ERROR:
                return self._answer(500, {}, _INTERNAL)
            case StoreFault.SILENCE:
                time.sleep(30)
                return self._reset()
            case StoreFault.RESET:
                return self._reset()
            case _:
                pass
        if (held := self._held_page(fault)) is not None:
            return self._answer(*held)
        status, headers, content = self._forwarded(body)
        if "list-type=2" in self.path and self.command == "GET" and status == 200:
            content = self._listed(content, spoiling)
        match fault:
            case StoreFault.LOST_RESPONSE:
                return self._reset()
            case StoreFault.TRUNCATED_BODY:
                self._answer(status, headers, content, sent=content[: len(content) // 2])
                return self._reset()
            case StoreFault.SLOW_BODY:
                return self._answer(status, headers, content, pause=0.1)
            case _:
                return self._answer(status, headers, content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass

    @staticmethod
    def _is_listing_fault(fault: StoreFault | None) -> bool:
        return fault in (StoreFault.LOST_ENTRIES, StoreFault.LOST_PAGES, StoreFault.FAILING_PAGE)

    def _forwarded(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        upstream = http.client.HTTPConnection("127.0.0.1", self.proxy.upstream, timeout=30)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _HOP_BY_HOP and name.lower() != "expect":
                upstream.putheader(name, value)
        if body or self.command in ("PUT", "POST"):
            upstream.putheader("Content-Length", str(len(body)))
        upstream.endheaders(body or None)
        answer = upstream.getresponse()
        content = answer.read()
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP}
        if self.command == "HEAD" and (length := answer.getheader("Content-Length")):
            headers["Content-Length"] = length
        upstream.close()
        return answer.status, headers, content

    # -- listings

    def _listed(self, content: bytes, spoiling: Spoiling | None) -> bytes:
        if spoiling is not None and spoiling.fault is StoreFault.LOST_ENTRIES:
            kept = [one for one in _CONTENTS.findall(content) if not spoiling.keys.search(_key(one))]
            self.proxy.spoiled += len(_CONTENTS.findall(content)) - len(kept)
            return _with_contents(content, kept, token=None)
        entries, page = _CONTENTS.findall(content), self.proxy.page
        if page is None or len(entries) <= page:
            return content
        lost = spoiling is not None and spoiling.fault is StoreFault.LOST_PAGES
        self.proxy.spoiled += lost
        token = f"after-{page}"
        prefix = parse_qs(urlsplit(self.path).query).get("prefix", [""])[0]
        type(self).pages = {**self.pages, prefix: _with_contents(content, entries[page:], token=None)}
        return _with_contents(content, entries[:page], token=None if lost else token)

    def _held_page(self, fault: StoreFault | None) -> tuple[int, Mapping[str, str], bytes] | None:
        """Return the second page of a listing whose first one was cut off here."""
        query = parse_qs(urlsplit(self.path).query)
        if not query.get("continuation-token", [""])[0].startswith("after-"):
            return None
        if fault is StoreFault.FAILING_PAGE:
            self.proxy.spoiled += 1
            return 500, {}, _INTERNAL
        return 200, {"Content-Type": "application/xml"}, self.pages[query.get("prefix", [""])[0]]

    # -- answers

    def _answer(
        self, status: int, headers: Mapping[str, str], content: bytes, *, sent: bytes | None = None, pause: float = 0
    ) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers and status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        body = content if sent is None else sent
        try:
            for at in range(0, len(body), 1 if pause else len(body) or 1):
                self.wfile.write(body[at : at + (1 if pause else len(body))])
                time.sleep(pause)
        except OSError:
            self.close_connection = True  # whoever asked has given up

    def _reset(self) -> None:
        """End the connection by an RST, as a router does that has lost it."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True


def _key(contents: bytes) -> str:
    found = _KEY.search(contents)
    return "" if found is None else found[1].decode()


def _with_contents(listing: bytes, entries: list[bytes], *, token: str | None) -> bytes:
    """Return a listing with other entries, truncated where there is a token."""
    bare = _CONTENTS.sub(b"", listing)
    bare = re.sub(rb"<(IsTruncated|NextContinuationToken|KeyCount)>.*?</\1>", b"", bare)
    more = f"<IsTruncated>{str(token is not None).lower()}</IsTruncated><KeyCount>{len(entries)}</KeyCount>"
    if token is not None:
        more += f"<NextContinuationToken>{token}</NextContinuationToken>"
    return bare.replace(b"</ListBucketResult>", more.encode() + b"".join(entries) + b"</ListBucketResult>")
