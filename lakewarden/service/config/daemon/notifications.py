"""The settings of notifications."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from lakewarden.planners.settings import Duration, Settings, Size, Within
from lakewarden.planners.storage.settings import SecretSetting
from lakewarden.service.model.notices import NoticeKind


class Payload(StrEnum):
    """The form of a message."""

    SLACK = "slack"
    JSON = "json"


class DebtLimits(Settings):
    """The most that may pile up for a service of a table. Without a limit there is no notice of debt."""

    files: Annotated[int, Within(1, 1_000_000_000)] | None = None
    """Files to rewrite."""

    bytes: Annotated[Size, Within("1MiB", "1024TiB")] | None = None
    """Bytes to rewrite."""

    commits: Annotated[int, Within(1, 1_000_000_000)] | None = None
    """Commits since the service last completed."""

    pending: Annotated[int, Within(1, 1_000_000)] | None = None
    """Pending plans."""

    @property
    def any(self) -> bool:
        """Whether there is a limit."""
        return any(getattr(self, name) is not None for name in type(self).model_fields)


class NotificationSettings(Settings):
    """Messages to a webhook about what needs an operator. One message may tell of many tables."""

    url: SecretSetting | None = None
    """The address of the webhook, as {env: NAME} or {file: PATH}, because such an address is a secret. Without it there
    are no messages.
    """

    payload: Payload = Payload.SLACK
    """`slack` sends what incoming webhooks of Slack and compatible programs take: `{"text": ...}`. `json` also sends
    each notice with its fields.
    """

    about: tuple[NoticeKind, ...] = tuple(NoticeKind)
    """What messages are about: `approval` (a deletion waits for one), `quarantine`, `writer_failure`, `debt`."""

    debt: DebtLimits = DebtLimits()
    """The most that may pile up for a service of a table."""

    every: Annotated[Duration, Within("1s", "1d")] = Field(default="1m", validate_default=True)
    """Two messages are at least this far apart. What comes meanwhile is in one message."""

    quiet: Annotated[Duration, Within("1m", "30d")] = Field(default="1h", validate_default=True)
    """If a cause goes and comes again within this time, it is not told again."""

    timeout: Annotated[Duration, Within("1s", "1m")] = Field(default="10s", validate_default=True)
    """A webhook that has not answered by then has failed. The message is sent again later."""

    plain_http: bool = False
    """`true`: the address may be http. Without it only https is allowed, and http to a loopback address."""
