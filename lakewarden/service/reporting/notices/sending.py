"""A message is sent to a webhook: bounded in time and in size, without redirects, and not to every address."""

from __future__ import annotations

import socket
import ssl
import threading
import urllib.request
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from http.client import HTTPException
from ipaddress import ip_address
from urllib.error import HTTPError
from urllib.parse import urlsplit

from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.service.config.daemon.notifications import NotificationSettings
from lakewarden.service.model.loopback import is_loopback

MOST_OPEN = 4
"""So many requests may hang at the same time. Then no other one begins."""

_READ = 4096


class NotSentError(LakewardenError):
    """A receiver has not taken a message. It asked to be left alone for `after`, if that is not None."""

    def __init__(self, reason: str, *, after: timedelta | None = None) -> None:
        super().__init__(reason)
        self.after = after


class Webhook:
    """Sends messages to the address that the settings name. The address is a secret, and no error contains it."""

    def __init__(self, settings: NotificationSettings) -> None:
        self._settings = settings
        self._open = threading.Semaphore(MOST_OPEN)

    def send(self, content: bytes) -> None:
        """Send a message and wait for the answer, for `timeout` at most. Raises NotSentError if it was not taken.

        A receiver may send its answer byte by byte, and a name server may never answer. So the request has a thread of
        its own, which is left behind.
        """
        if not self._open.acquire(blocking=False):
            raise NotSentError(f"{MOST_OPEN} earlier requests still hang")
        done = Future[None]()
        threading.Thread(target=self._sent, args=(content, done), name="notification", daemon=True).start()
        seconds = self._settings.timeout.total_seconds()
        try:
            done.result(seconds)
        except TimeoutError:
            raise NotSentError(f"the receiver has not answered for {seconds:g} s") from None

    def _sent(self, content: bytes, done: Future[None]) -> None:
        try:
            self._post(content)
            done.set_result(None)
        except NotSentError as error:
            done.set_exception(error)
        except Exception as error:  # noqa: BLE001 - the edge of a thread: its waiter must hear of every end
            done.set_exception(NotSentError(f"the request has failed: {type(error).__name__}"))
        finally:
            self._open.release()

    def _post(self, content: bytes) -> None:
        seconds = self._settings.timeout.total_seconds()
        url = allowed(self._address(), plain_http=self._settings.plain_http)
        headers = {"Content-Type": "application/json", "User-Agent": "lakewarden"}
        opener = urllib.request.build_opener(
            _NoRedirects(), urllib.request.HTTPSHandler(context=ssl.create_default_context())
        )
        try:
            request = urllib.request.Request(url, content, headers)  # noqa: S310 - the scheme was judged
            with opener.open(request, timeout=seconds) as answer:
                answer.read(_READ)
        except HTTPError as refused:
            refused.close()
            raise NotSentError(f"the receiver answered {refused.code}", after=_retry_after(refused)) from None
        except (OSError, HTTPException, ValueError) as away:
            reason = getattr(away, "reason", None) or away
            raise NotSentError(f"the receiver cannot be reached: {type(reason).__name__}") from None

    def _address(self) -> str:
        if self._settings.url is None:
            raise NotSentError("notifications.url is not set")
        try:
            return self._settings.url.value()
        except PermanentError as missing:
            raise NotSentError(str(missing)) from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead to an address that was not judged."""

    def redirect_request(self, *_args: object) -> None:
        """Follow no redirect. Its answer is then an error."""


def allowed(url: str, *, plain_http: bool, resolve: Callable[[str], list[str]] | None = None) -> str:
    """Return the address of a webhook. Raises NotSentError if messages must not go there.

    The address is https, or http to this machine. It never is a link-local address: there the metadata services of
    clouds hand out credentials.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise NotSentError("notifications.url is no address") from None
    if not host or parts.scheme not in ("https", "http") or parts.username is not None or not url.isprintable():
        raise NotSentError("notifications.url is no address of the form https://host/path")
    if parts.scheme == "http" and not plain_http and not is_loopback(host):
        raise NotSentError("notifications.url is http: use https, or set notifications.plain_http: true")
    try:
        found = (resolve or _addresses)(host)
    except OSError:
        return url  # a proxy may know the name
    if any(ip_address(one.split("%")[0]).is_link_local for one in found):
        raise NotSentError("notifications.url is a link-local address: no message is sent there")
    return url


def _addresses(host: str) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


def _retry_after(refused: HTTPError) -> timedelta | None:
    said = refused.headers.get("Retry-After", "")
    return timedelta(seconds=int(said)) if said.isascii() and said.isdigit() and len(said) < 7 else None
