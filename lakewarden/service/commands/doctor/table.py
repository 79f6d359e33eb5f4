"""`lakewarden doctor TABLE`: what a daemon has proved of a table, with a cure for each check that is not ok."""

from __future__ import annotations

from typing import TextIO

from lakewarden.client import Client
from lakewarden.planners.model.printable import printable
from lakewarden.service.commands.names import about_table
from lakewarden.service.commands.printing import as_written


def prove_table(client: Client, table: str, *, as_json: bool, out: TextIO) -> int:
    """Print the checks of a table. Return 1 if one that is needed is not ok."""
    proof = about_table(client, table, lambda: client.table_proof(table))
    if as_json:
        print(as_written(proof), file=out)
    else:
        width = max(len(one["check"]) for one in proof["checks"])
        for one in proof["checks"]:
            found = one["found"] if one["needed"] else f"{one['found']} (not needed here)"
            print(printable(f"{one['result']:<10}  {one['check']:<{width}}  {found}"), file=out)
            if one["cure"] is not None:
                print(printable(f"{'':<10}  {'':<{width}}  -> {one['cure']}"), file=out)
        verdict = "proved" if proof["proved"] else "not proved"
        print(
            printable(f"{proof['table']} is {verdict}. mode: {proof['mode']}, act_when: {proof['act_when']}"), file=out
        )
    return 0 if proof["proved"] else 1
