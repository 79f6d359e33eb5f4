"""The settings of the database of the store."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, field_validator, model_validator

from lakewarden.planners.settings import Duration, Settings, Within
from lakewarden.planners.storage.settings import SecretSetting

_FORM = "postgresql://user@host:5432/database"
_REFERENCE = "{env: NAME} or {file: PATH}"


class DatabaseSettings(Settings):
    """The database of runs, leases and decisions."""

    url: str | None = None
    """A PostgreSQL database, for example `postgresql://lakewarden@db.example.com:5432/lakewarden`. Several replicas of
    the daemon may share it. It needs the extra `postgres`. Parameters of libpq may follow, for example
    `?sslmode=verify-full`. The default is a SQLite file in data_dir, for one daemon. A change of this setting begins
    with an empty store.
    """

    password: SecretSetting | None = None
    """The password of the user in the url. By default libpq uses PGPASSWORD, a password file, or none."""

    wait: Annotated[Duration, Within("0s", "1h")] = Field(default="60s", validate_default=True)
    """If the PostgreSQL database is away at the start, the daemon asks again for this long. Then it ends."""

    @field_validator("url")
    @classmethod
    def _without_a_password(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            has_password = parts.password is not None or any(key == "password" for key, _ in parse_qsl(parts.query))
            sound = parts.scheme in ("postgresql", "postgres") and parts.path.strip("/") != "" and parts.port != 0
        except ValueError:  # a port that is no number, half an IPv6 address
            raise ValueError(f"a database is named in the form {_FORM}") from None
        if has_password:
            raise ValueError(f"the url must not have a password: remove it, and set password: {_REFERENCE}")
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
        """Whether other replicas may use the database. Then leases have an end."""
        return self.url is not None
