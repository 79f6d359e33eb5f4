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

    @field_validator("certificate", "key")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        if not value.is_absolute():
            raise ValueError(f"{str(value)!r} is not absolute")
        return value
