"""`lakewarden explain`: it prints the explanation of a running daemon for a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO, TypeVar

from pydantic import ValidationError

from lakewarden.client import Client, StrangeError
from lakewarden.planners.model.printable import printable_values
from lakewarden.service.commands.printing import about_table, as_written
from lakewarden.service.reporting.explain.assembly import PastExplanation
from lakewarden.service.reporting.explain.bodies import TableExplanation
from lakewarden.service.reporting.explain.text import past_written_out, written_out

_Explanation = TypeVar("_Explanation", TableExplanation, PastExplanation)


def explain_table(client: Client, table: str, *, at: str | None = None, as_json: bool, out: TextIO) -> None:
    """Print why the services of a table run or do not, now or at a past moment. Raises ClientError."""
    answer = about_table(client, table, lambda: client.explain_table(table, at=at))
    if as_json:
        print(as_written(answer), file=out)
    elif at is None:
        print(written_out(_read(TableExplanation, answer, client)), file=out)
    else:
        print(past_written_out(_read(PastExplanation, answer, client)), file=out)


def _read(kind: type[_Explanation], answer: Mapping[str, Any], client: Client) -> _Explanation:
    """Return the answer as an explanation that can be printed. Raises StrangeError if it is of another version."""
    try:
        return kind.model_validate(printable_values(answer))
    except ValidationError as strange:
        raise StrangeError(f"the daemon at {client.url} is of another version than this command") from strange
