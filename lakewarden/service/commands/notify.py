"""`lakewarden notify`: one message to the webhook of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.config.loading import load
from lakewarden.service.reporting.notices.message import greeting
from lakewarden.service.reporting.notices.sending import NotSentError, Webhook


def send_greeting(config_file: Path, *, out: TextIO) -> int:
    """Send a message that only shows that messages arrive. Raises PermanentError if it was not taken."""
    settings = load(config_file).settings
    try:
        Webhook(settings.notifications).send(greeting(page=settings.api.url))
    except NotSentError as error:
        raise PermanentError(f"{config_file}: no message was sent: {error}") from error
    print("the webhook has taken a message", file=out)
    return 0
