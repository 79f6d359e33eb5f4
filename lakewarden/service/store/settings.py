"""The settings of the store's database."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from pydantic import field_validator, model_validator

from lakewarden.planners.settings import Settings
from lakewarden.planners.storage.settings import SecretSetting

_FORM = "postgresql://user@host:5432/database"
_REFERENCE = "{env: NAME} or {file: PATH}"


class DatabaseSettings(Settings):
    """Where runs, leases and decisions are kept."""

    url: str | None = None
    """A PostgreSQL database, as in `postgresql://lakewarden@db.example.com:5432/lakewarden`, which several replicas of
    the daemon may share; it needs `pip install 'lakewarden[postgres]'`. libpq's parameters may follow, as in
    `?sslmode=verify-full`. By default a SQLite file in data_dir, for one daemon. Changing it begins an empty store."""

    password: SecretSetting | None = None
    """The password of the url's user. By default what libpq finds by itself: PGPASSWORD, a password file, or none."""

    @field_validator("url")
    @classmethod
    def _without_a_password(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            said = parts.password is not None or any(key == "password" for key, _ in parse_qsl(parts.query))
            sound = parts.scheme in ("postgresql", "postgres") and parts.path.strip("/") != "" and parts.port != 0
        except ValueError:  # a port that is no number, half an IPv6 address
            raise ValueError(f"a database is named in the form {_FORM}") from None
        if said:
            raise ValueError(f"a password does not stand in the url: remove it, and say password: {_REFERENCE}")
        if not sound:
            raise ValueError(f"a database is named in the form {_FORM}; without a url it is a SQLite file in data_dir")
        return value

    @model_validator(mode="after")
    def _a_password_for_something(self) -> DatabaseSettings:
        if self.url is None and self.password is not None:
            raise ValueError("a SQLite file has no password: give a url too, or remove the password")
        return self

    @property
    def shared(self) -> bool:
        """Whether other replicas may be on the database, so that leases have to be timed."""
        return self.url is not None
