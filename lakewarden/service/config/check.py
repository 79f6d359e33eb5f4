"""`lakewarden check-config`: all problems of a configuration, before a daemon is started with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TextIO

from lakewarden.service.config.loading import Config, Examination, examine
from lakewarden.service.config.problems import Weight, named

REFUSED = 2


def check_config(file: Path, *, as_json: bool, out: TextIO) -> int:
    """Print every error that would stop `serve` here, and every warning. Return 2 if there is an error."""
    examined = examine(file, to_serve=True, look=True)
    print(_as_json(examined) if as_json else _written_out(examined), file=out)
    return REFUSED if examined.config is None else 0


def _written_out(examined: Examination) -> str:
    lines = [examined.document.told(problem) for problem in examined.problems]
    counted = [_counted(len(examined.of(weight)), weight) for weight in Weight if examined.of(weight)]
    tables = "" if examined.config is None else f"; {_means(examined.config)}"
    return "\n".join([*lines, f"{examined.document.file}: {' and '.join(counted) or 'no problem'}{tables}"])


def _as_json(examined: Examination) -> str:
    document = examined.document
    problems = [
        {
            "severity": problem.weight.value,
            "line": problem.line or document.line(problem.at),
            "key": named(problem.at),
            "message": problem.sentence,
        }
        for problem in examined.problems
    ]
    tables = None if examined.config is None else len(examined.config.tables)
    return json.dumps({"file": str(document.file), "tables": tables, "problems": problems}, indent=2)


def _means(config: Config) -> str:
    """Return how many tables are listed, and how many patterns mean further ones. Those are found by the daemon."""
    listed = _counted(len(config.tables), "table")
    return f"{listed} and {_counted(len(config.discover), 'pattern')} of tables" if config.discover else listed


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
