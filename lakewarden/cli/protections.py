"""`lakewarden approvals` and `quarantine`: what keeps a service from what it would do."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

import typer

from lakewarden.cli.commands import command, group
from lakewarden.cli.options import AsJson, KeyFile, Limit, Service, Table, Url, client_of
from lakewarden.cli.terminal import Column, Kind, show_list
from lakewarden.client.bodies import ApprovalRequest
from lakewarden.client.transport import DAEMON
from lakewarden.planners.model.printable import printable
from lakewarden.service.commands.printing import about_table

approvals = group("Deletions beyond a budget: list and approve them.")
quarantine = group("Services that are stopped until an operator releases them.", listing=False)

_APPROVALS = (
    Column("TABLE", "table"),
    Column("SERVICE", "service"),
    Column("FILES", "files"),
    Column("OF", "files_in_table"),
    Column("BYTES", "bytes", Kind.SIZE),
    Column("PARTITIONS", "partitions"),
    Column("VERSIONS", "versions"),
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
    """List the deletions that are waiting for approval or approved."""
    page = client_of(url, key_file).approvals
    show_list(
        page, _APPROVALS, limit=limit, as_json=as_json, empty="no deletion is waiting for approval", waiting=waiting
    )


@command(approvals, "approve")
def approve(
    table: Annotated[str, typer.Argument(help="The id of a table, or a pattern of ids: 'lake.*'.")],
    service: Service,
    by: Annotated[str | None, typer.Option("--by", help="Your name. Used only without authentication.")] = None,
    most_files: Annotated[
        int | None, typer.Option("--most-files", min=0, help="Leave out deletions of more files than this.")
    ] = None,
    url: Url = DAEMON,
    key_file: KeyFile = None,
) -> None:
    """Approve the waiting deletions of a service on one or many tables, exactly as `approvals list` shows them."""
    client = client_of(url, key_file)
    body: ApprovalRequest | None = None if by is None else {"by": by}
    if most_files is None and not any(sign in table for sign in "*?["):
        about_table(client, table, lambda: client.approve(table, service, body=body))
        print(printable(f"the deletion of {service} on {table} is approved"))
        return
    waiting = [
        approval
        for approval in client.each(client.approvals, waiting=True)
        if approval["service"] == service and fnmatchcase(approval["table"], table)
    ]
    meant = [deletion for deletion in waiting if most_files is None or deletion["files"] <= most_files]
    for deletion in meant:
        client.approve(deletion["table"], service, body=body)
        print(printable(f"the deletion of {deletion['files']} files by {service} on {deletion['table']} is approved"))
    print(printable(f"{len(meant)} of {len(waiting)} waiting deletions are approved"))


@command(quarantine, "release")
def release_quarantine(table: Table, service: Service, url: Url = DAEMON, key_file: KeyFile = None) -> None:
    """Release a service of a table from quarantine and from backoff."""
    client = client_of(url, key_file)
    about_table(client, table, lambda: client.release(table, service))
    print(printable(f"{service} on {table} is released"))
