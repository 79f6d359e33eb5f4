"""The certificate of a port. It is read again when its files have changed."""

from __future__ import annotations

import ssl
import time

import structlog

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.config.identity.tls import TlsSettings

log = structlog.get_logger(__name__)

EVERY_SECONDS = 5.0
"""How often the files are looked at."""

_Versions = tuple[tuple[int, int, int], ...]


class Certificates:
    """Keeps one context for TLS with the newest certificate. Only the loop of the port uses it.

    Connections that are open keep the certificate that they began with.
    """

    def __init__(self, name: str, settings: TlsSettings, *, every_seconds: float = EVERY_SECONDS) -> None:
        """Read the files. Raises PermanentError if they are no certificate with its key."""
        self._name = name
        self._settings = settings
        self._every_seconds = every_seconds
        self._told: _Versions = ()
        self._looked_at = time.monotonic()
        try:
            self._versions = self._found()
            self._context = self._made()
        except (OSError, ValueError) as wrong:  # ssl.SSLError is an OSError
            raise PermanentError(f"{name}.tls cannot be used: {_reason(wrong)}") from wrong

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. If the new files are wrong, the old certificate stays in use."""
        now = time.monotonic()
        if now - self._looked_at >= self._every_seconds:
            self._looked_at = now
            self._look()
        return self._context

    def _look(self) -> None:
        found: _Versions = ()
        try:
            found = self._found()
            if found == self._versions:
                return
            # A new context: an old one with a new certificate and an old key would refuse every connection.
            self._context, self._versions, self._told = self._made(), found, ()
            log.info("certificate_read", port=self._name)
        except (OSError, ValueError) as wrong:
            if found != self._told or not found:
                self._told = found
                log.warning("certificate_refused", port=self._name, reason=_reason(wrong))

    def _found(self) -> _Versions:
        files = (path.stat() for path in (self._settings.certificate, self._settings.key))
        return tuple((file.st_ino, file.st_mtime_ns, file.st_size) for file in files)

    def _made(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.load_cert_chain(self._settings.certificate, self._settings.key, password=_no_password)
        return context


def _no_password() -> str:
    raise ValueError("the private key has a password")


def _reason(wrong: Exception) -> str:
    return getattr(wrong, "strerror", None) or str(wrong)
