"""`lakewarden adopt TABLES`: what its writers have to set, and what they set back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from lakewarden.client import Client, ClientError
from lakewarden.client.bodies import AdoptionsBody
from lakewarden.planners.model.printable import printable
from lakewarden.service.commands.printing import as_written

_MOST_OPTIONS = 3
"""For so many tables the options are printed. For more, they are better written to files."""


def take_over(client: Client, tables: str, *, waves: Sequence[float], as_json: bool, out: TextIO) -> AdoptionsBody:
    """Have the daemon take tables over, and print what their writers have to set. Return the adoptions."""
    answer = client.adopt(body={"tables": tables, "waves": list(waves)})
    if as_json:
        print(as_written(answer), file=out)
        return answer
    for one in answer["refused"]:
        print(printable(f"not taken over: {one['table']}: {one['reason']}"), file=out)
    taken = [one["table"] for one in answer["items"]]
    for table in taken[:_MOST_OPTIONS]:
        _print_options(client, table, back=False, out=out)
    if len(taken) > _MOST_OPTIONS:
        print("'lakewarden writer-options --all --output DIR' writes the options of all writers to files", file=out)
    print("the daemon goes on by itself: 'lakewarden adopt' shows how far it is", file=out)
    return answer


def give_back(client: Client, tables: str, *, as_json: bool, out: TextIO) -> None:
    """Have the daemon give tables back, and print what becomes of runs, and what the writers set back."""
    answer = client.give_back(tables=tables)
    if as_json:
        print(as_written(answer), file=out)
        return
    print(printable(f"{len(answer['tables'])} tables are given back, and only observed from now on"), file=out)
    for run in answer["runs"]:
        print(printable(f"run {run['run']} ({run['service']} of {run['table']}): {run['becomes']}"), file=out)
    for table in answer["tables"][:_MOST_OPTIONS]:
        _print_options(client, table, back=True, out=out)
    if len(answer["tables"]) > _MOST_OPTIONS:
        print("'lakewarden adopt TABLE --undo' prints what the writers of one table set back", file=out)


def _print_options(client: Client, table: str, *, back: bool, out: TextIO) -> None:
    try:
        body = client.writer_options(table)
    except ClientError as none:
        print(printable(f"no options for the writers of {table}: {none}"), file=out)
        return
    if not back:
        print(printable(f"# {body['engine']} writers of {table} set:"), file=out)
        for option in body["options"]:
            print(printable(f"{option['key']}={option['value']}".rstrip("=")), file=out)
        return
    print(printable(f"# {body['engine']} writers of {table} remove, to serve the table themselves again:"), file=out)
    for option in body["options"]:
        if not option["shared"]:
            print(printable(option["key"]), file=out)
    kept = [option["key"] for option in body["options"] if option["shared"]]
    if kept:
        print(printable(f"# and keep, while more than one program writes to {table}:"), file=out)
        for key in kept:
            print(printable(key), file=out)
