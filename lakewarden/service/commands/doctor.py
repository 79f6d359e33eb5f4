"""`lakewarden doctor`: whether all is set up, with and without a daemon."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from lakewarden.client import Client
from lakewarden.planners.model.decision import MEND_THE_TABLE
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.proof import Check, Proof, ProofResult, not_proved, proved, wrong
from lakewarden.service.commands.checks import at_once, of_database, of_lake, of_machine
from lakewarden.service.commands.observing import observed
from lakewarden.service.commands.printing import about_table, as_written
from lakewarden.service.config.check import REFUSED, check_config
from lakewarden.service.config.loading import examine, load
from lakewarden.service.config.problems import Weight
from lakewarden.service.rules.proof import proofs_of_view


def examine_all(file: Path) -> Sequence[Proof]:
    """Return what every check finds. Without a configuration that can be used, the others are not checked."""
    examined = examine(file, to_serve=True)
    errors, warnings = examined.of(Weight.ERROR), examined.of(Weight.WARNING)
    if examined.config is None:
        remedy = "'lakewarden check-config' prints every problem"
        return [wrong("configuration", errors[0], remedy), not_proved("everything else", "it needs a configuration")]
    tables = len(examined.config.tables)
    return [
        proved("configuration", f"{file} has {tables} tables and {len(warnings)} warnings"),
        *at_once([*of_machine(examined.config), *of_lake(examined.config)]),
    ]


def doctor(file: Path, *, as_json: bool, out: TextIO) -> int:
    """Print what works from this machine and what does not. Return 1 if a check has failed, and 0 otherwise."""
    proofs = examine_all(file)
    _print_all(proofs, as_json=as_json, out=out)
    return code_for(proofs)


def prove_table(client: Client, table: str, *, as_json: bool, out: TextIO) -> int:
    """Print what the daemon has proved of a table. Return 1 if a check that is needed is not ok. Raises ClientError."""
    answer = about_table(client, table, lambda: client.table_proof(table))
    if as_json:
        print(as_written(answer), file=out)
    else:
        print_proofs(
            [
                Proof(
                    check=one["check"],
                    result=ProofResult(one["result"]),
                    found=one["found"] if one["needed"] else f"{one['found']} (not needed here)",
                    cure=one["cure"],
                )
                for one in answer["checks"]
            ],
            out=out,
        )
        verdict = "proved" if answer["proved"] else "not proved"
        words = f"{answer['table']} is {verdict}. mode: {answer['mode']}, act_when: {answer['act_when']}"
        print(printable(words), file=out)
    return 0 if answer["proved"] else 1


def prove_here(file: Path, table: str, *, as_json: bool, out: TextIO) -> int | None:
    """Print what one look proves of a table in a configuration, for a daemon that does not answer. Return 1, because
    the rest is proved by a daemon. None if there is no configuration, or if it does not have the table.
    """
    config = load(file) if file.exists() else None
    listed = [one for one in config.tables if one.id == table] if config is not None else []
    if not listed:
        return None
    [(_, view)] = observed(listed, config)
    if isinstance(view, str):
        proofs = [wrong(Check.TABLE, view, MEND_THE_TABLE)]
    else:
        proofs = list(proofs_of_view(listed[0], view, datetime.now(UTC)))
    rest = ", ".join(one for one in Check if one not in {proof.check for proof in proofs})
    proofs.append(not_proved("daemon", f"no daemon answers. It proves the rest: {rest}", "start it with mode: plan"))
    _print_all(proofs, as_json=as_json, out=out)
    return 1


def _print_all(proofs: Sequence[Proof], *, as_json: bool, out: TextIO) -> None:
    if as_json:
        print(json.dumps({"checks": [asdict(one) for one in proofs]}, indent=2), file=out)
    else:
        print_proofs(proofs, out=out)


def print_proofs(proofs: Sequence[Proof], *, out: TextIO) -> None:
    """Print one line for each check, and further ones with the cure of what is not ok."""
    width = max(len(printable(one.check)) for one in proofs)
    for one in proofs:
        print(f"{one.result:<10}  {printable(one.check):<{width}}  {printable(one.found)}", file=out)
        for number, line in enumerate((one.cure or "").splitlines()):
            print(f"{'':<10}  {'':<{width}}  {'  ' if number else '->'} {printable(line)}", file=out)


def code_for(proofs: Sequence[Proof]) -> int:
    """Return 1 if something is wrong, and 0 otherwise."""
    return 1 if any(one.result is ProofResult.WRONG for one in proofs) else 0


def check_and_connect(file: Path, *, as_json: bool, out: TextIO) -> int:
    """Print the problems of a configuration, and whether its store, catalogs, locks, stores and tables are reached.

    Return 2 if the configuration has an error. Then nothing is tried. Return 1 if something is not reached.
    """
    problems = io.StringIO()
    if check_config(file, as_json=as_json, out=problems) == REFUSED:
        print(problems.getvalue(), end="", file=out)
        return REFUSED
    config = load(file)
    proofs = at_once([of_database(config), *of_lake(config)])
    if as_json:
        checked = json.loads(problems.getvalue())
        print(json.dumps({**checked, "connections": [asdict(one) for one in proofs]}, indent=2), file=out)
    else:
        print(problems.getvalue(), end="", file=out)
        print_proofs(proofs, out=out)
    return code_for(proofs)
