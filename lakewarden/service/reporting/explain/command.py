"""`lakewarden explain`: a running daemon's explanation of a table, on a terminal."""

from __future__ import annotations

from typing import TextIO

from pydantic import ValidationError

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.printable import printable_values
from lakewarden.service.reporting.client import ask_of_table
from lakewarden.service.reporting.explain.bodies import TableExplanation
from lakewarden.service.reporting.explain.text import written_out


def explain_table(table: str, *, url: str, as_json: bool, out: TextIO) -> int:
    """Print why the services of a table run or do not, and return 0.

    Raises TemporaryError where no daemon answers, PermanentError for a table that it does not know.
    """
    answer = ask_of_table(url, table, "explain")
    try:
        explanation = TableExplanation.model_validate(printable_values(answer))
    except ValidationError as strange:
        raise PermanentError(f"the daemon at {url} is of another version than this command") from strange
    print(explanation.model_dump_json(indent=2) if as_json else written_out(explanation), file=out)
    return 0
