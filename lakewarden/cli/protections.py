"""`lakewarden approvals`, `quarantine` and `holds`: what keeps a service from what it would do."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

import typer

from lakewarden.cli.commands import command, group
from lakewarden.cli.options import AsJson, KeyFile, Limit, Reason, Service, Table, Url, client_of
from lakewarden.cli.terminal import Column, Kind, show_items, show_list
from lakewarden.client.bodies import ApprovalRequest, BarrierRequest, QuarantineRequest
from lakewarden.client.transport import DAEMON
from lakewarden.planners.model.printable import printable
from lakewarden.service.commands.printing import about_table, as_written

approvals = group("Deletions beyond a budget: list and approve them.")
quarantine = group("Services that are stopped until an operator releases them.", listing=False)
holds = group("The holds of a table. Cleans wait until the last hold ends.", listing=False)

_APPROVALS = (
    Column("TABLE", "table"),
    Column("SERVICE", "service"),
    Column("FILES", "files"),
    Column("OF", "files_in_table"),
    Column("PARTITIONS", "partitions"),
    Column("RETAINS FROM", "retained"),
    Column("ASKED", "asked_at", Kind.AGO),
    Column("APPROVED BY", "approved_by"),
)


@command(approvals, "list")
def list_approvals(
    waiting: Annotated[bool | None, typer.Option(help="Deletions that are not approved yet.")] = None,
    limit: Limit = 0,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """List the deletions beyond a budget, those that wait and those that are approved."""
    page = client_of(url, key_file).approvals
    show_list(
        page, _APPROVALS, limit=limit, as_json=as_json, empty="no deletion waits for an approval", waiting=waiting
    )


@command(approvals, "approve")
def approve(
    table: Annotated[str, typer.Argument(help="The id of a table, or a pattern of ids: 'lake.*'.")],
    service: Service,
    by: Annotated[str | None, typer.Option("--by", help="Your name. It counts only without authentication.")] = None,
    most_files: Annotated[
        int | None, typer.Option("--most-files", min=0, help="Leave out the deletions of more files.")
    ] = None,
    url: Url = DAEMON,
    key_file: KeyFile = None,
) -> None:
    """Approve the deletions that wait for a service of a table, or of many, exactly as `approvals list` shows them."""
    client = client_of(url, key_file)
    body: ApprovalRequest | None = None if by is None else {"by": by}
    if most_files is None and not any(sign in table for sign in "*?["):
        about_table(client, table, lambda: client.approve(table, service, body=body))
        print(printable(f"the deletion of {service} on {table} is approved"))
        return
    waiting = [
        approval
        for approval in client.each_of_approvals(waiting=True)
        if approval["service"] == service and fnmatchcase(approval["table"], table)
    ]
    meant = [deletion for deletion in waiting if most_files is None or deletion["files"] <= most_files]
    for deletion in meant:
        client.approve(deletion["table"], service, body=body)
        print(printable(f"the deletion of {deletion['files']} files by {service} on {deletion['table']} is approved"))
    print(printable(f"{len(meant)} of {len(waiting)} deletions that wait are approved"))


@command(quarantine, "add")
def add_quarantine(
    table: Table, service: Service, reason: Reason = None, url: Url = DAEMON, key_file: KeyFile = None
) -> None:
    """Put a service of a table into quarantine. It does not run until an operator releases it."""
    client = client_of(url, key_file)
    body: QuarantineRequest | None = None if reason is None else {"reason": reason}
    about_table(client, table, lambda: client.quarantine(table, service, body=body))
    print(printable(f"{service} on {table} is in quarantine: 'lakewarden quarantine release' ends it"))


@command(quarantine, "release")
def release_quarantine(table: Table, service: Service, url: Url = DAEMON, key_file: KeyFile = None) -> None:
    """Release a service of a table from quarantine and from backoff."""
    client = client_of(url, key_file)
    about_table(client, table, lambda: client.release(table, service))
    print(printable(f"{service} on {table} is released"))


_HOLDS = (Column("ID", "id"), Column("OWNER", "owner"), Column("UNTIL", "held_until", Kind.AGO))


@command(holds, "list")
def list_holds(table: Table, url: Url = DAEMON, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """List the holds of a table."""
    client = client_of(url, key_file)
    answer = about_table(client, table, lambda: client.holds(table))
    if as_json:
        print(as_written(answer))
    else:
        show_items(answer["items"], _HOLDS, empty="nothing holds cleans back")


@command(holds, "take")
def take_hold(
    table: Table,
    hold: Annotated[str | None, typer.Option("--hold", help="How long cleans wait at most, such as 30s.")] = None,
    wait: Annotated[str | None, typer.Option("--wait", help="How long to wait for a clean that commits.")] = None,
    url: Url = DAEMON,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Hold the cleans of a table back, and wait for one that commits."""
    client = client_of(url, key_file)
    body: BarrierRequest = {}
    if hold is not None:
        body["hold"] = hold
    if wait is not None:
        body["wait"] = wait
    answer = about_table(client, table, lambda: client.hold_cleans(table, body=body))
    if as_json:
        print(as_written(answer))
    else:
        print(printable(f"cleans of {table} wait until {answer['held_until']}: hold {answer['hold']}"))


@command(holds, "release")
def release_hold(
    table: Table,
    hold: Annotated[str | None, typer.Argument(help="The id of a hold. Without it, all holds end.")] = None,
    url: Url = DAEMON,
    key_file: KeyFile = None,
) -> None:
    """End a hold of a table, or all its holds."""
    client = client_of(url, key_file)
    if hold is None:
        about_table(client, table, lambda: client.release_cleans(table))
    else:
        about_table(client, table, lambda: client.release_hold(table, hold))
    print(printable(f"hold {hold} of {table} has ended" if hold else f"every hold of {table} has ended"))
