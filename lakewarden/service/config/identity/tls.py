"""The certificate of a port."""

from __future__ import annotations

from pathlib import Path

from pydantic import field_validator

from lakewarden.planners.settings import Settings


class TlsSettings(Settings):
    """The certificate with which a port speaks TLS. Both files are read again when one of them has changed."""

    certificate: Path
    """The file with the certificate and its chain, in PEM."""

    key: Path
    """The file with the private key, in PEM, without a password. The key itself never stands in the configuration."""

    client_authority: Path | None = None
    """A file with the authorities of client certificates, in PEM. It is read again when it has changed. A client may
    then send a certificate, and `access.certificates` says which ones count. Give the hooks a port of their own,
    because browsers ask their user for a certificate.
    """

    @field_validator("certificate", "key", "client_authority")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_absolute():
            raise ValueError(f"{str(value)!r} is not absolute")
        return value
