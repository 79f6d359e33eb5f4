"""Notices become one message. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from lakewarden.service.config.daemon.notifications import Payload
from lakewarden.service.reporting.notices.finding import Notice

MOST_LINES = 20
"""So many notices are in the text of a message. It counts the others."""

_WORDS = {"approval": "approval", "quarantine": "quarantine", "writer_failure": "failed write", "debt": "debt"}


def message_of(notices: Sequence[Notice], payload: Payload, *, page: str) -> bytes:
    """Return the body of a message. `page` is the address of the page for operators."""
    body: dict[str, Any] = {"text": _text(notices, page)}
    if payload is Payload.JSON:
        body["notices"] = [
            {
                "table": notice.table,
                "kind": notice.kind.value,
                "service": None if notice.service is None else notice.service.value,
                "message": notice.words,
                "contact": notice.contact,
                "link": _link(notice, page),
            }
            for notice in notices
        ]
    return json.dumps(body).encode()


def greeting(*, page: str) -> bytes:
    """Return the body of a message that only shows that messages arrive. Every payload has a text."""
    return json.dumps({"text": f"Lakewarden's messages arrive here. {_escaped(page)}"}).encode()


def _text(notices: Sequence[Notice], page: str) -> str:
    """Return the text in Slack's form. No part of it can be a link or a mention that a table has made up."""
    count = "1 notice" if len(notices) == 1 else f"{len(notices)} notices"
    lines = [f"Lakewarden: {count}", *(_line(notice, page) for notice in notices[:MOST_LINES])]
    if len(notices) > MOST_LINES:
        lines.append(f"and {len(notices) - MOST_LINES} more: {_escaped(page)}/")
    return "\n".join(lines)


def _line(notice: Notice, page: str) -> str:
    contact = "" if notice.contact is None else f" (contact: {_escaped(notice.contact)})"
    name = f"<{_escaped(_link(notice, page))}|{_escaped(notice.table)}>"
    return f"• {_WORDS[notice.kind]}, {name}: {_escaped(notice.words)}{contact}"


def _link(notice: Notice, page: str) -> str:
    return f"{page}/tables/{quote(notice.table, safe='')}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
