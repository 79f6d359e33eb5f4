"""The operations of the API, a method for each. Its name is the id of the operation.

Written by `python -m docs.client` from `docs/openapi.json`. Do not edit.
"""

# ruff: noqa: A002 - a parameter has the name that the API gives it

from __future__ import annotations

from typing import Literal

from lakewarden.client import bodies
from lakewarden.client.transport import Transport


class Operations(Transport):
    """The operations of the API port."""

    def approvals(
        self, *, waiting: bool | None = None, after: str | None = None, limit: int | None = None
    ) -> bodies.ApprovalPage:
        """Return the deletions beyond a budget of the tables for which the caller is a viewer.

        `waiting`: the deletion is not approved. An approved one stays until it is carried out.
        """
        return self._call(
            "GET",
            "/v1/approvals",
            query={"waiting": waiting, "after": after, "limit": limit},
            answer=bodies.ApprovalPage,
        )

    def audit(self, *, table: str | None = None, after: int | None = None, limit: int | None = None) -> bodies.ActPage:
        """Return the acts of persons and programs, the newest first.

        `after` is the number of the act after which the page begins. The acts of the page are older.
        """
        return self._call(
            "GET", "/v1/audit", query={"table": table, "after": after, "limit": limit}, answer=bodies.ActPage
        )

    def config(self) -> bodies.ConfigBody:
        """Return the configuration of the daemon that answers, without secrets."""
        return self._call("GET", "/v1/config", answer=bodies.ConfigBody)

    def discovery(self, *, after: str | None = None, limit: int | None = None) -> bodies.SourcePage:
        """Return the catalogs and the patterns of paths that tables are found by, by their names.

        Each replica lists them for itself.
        """
        return self._call("GET", "/v1/discovery", query={"after": after, "limit": limit}, answer=bodies.SourcePage)

    def discover_now(self) -> bodies.ListingBody:
        """List every catalog and every pattern of paths now. `GET /v1/discovery` shows the answers."""
        return self._call("POST", "/v1/discovery/list", answer=bodies.ListingBody)

    def drain(self) -> bodies.DrainBody:
        """End the daemon that answers, as SIGTERM does. It starts no more runs, and waits for active runs.

        With replicas, the others take its tables over. A supervisor, such as Kubernetes, may start it again.
        """
        return self._call("POST", "/v1/drain", answer=bodies.DrainBody)

    def fleet_status(self) -> bodies.FleetStatusBody:
        """Return what ran in the last day, what is blocked and why, and what waits."""
        return self._call("GET", "/v1/fleet/status", answer=bodies.FleetStatusBody)

    def pause(self, *, body: bodies.PauseRequest | None = None) -> None:
        """Pause every table. No more runs are started. The next step of a run under way is refused. A commit that
        was permitted already goes on.
        """
        self._call("POST", "/v1/pause", body=body)

    def registrations(self, *, after: str | None = None, limit: int | None = None) -> bodies.RegistrationPage:
        """Return the tables that are registered over the API, also those that cannot be served, by their ids."""
        return self._call(
            "GET", "/v1/registrations", query={"after": after, "limit": limit}, answer=bodies.RegistrationPage
        )

    def register_table(self, *, body: bodies.RegisteredTableRequest | None = None) -> bodies.RegistrationBody:
        """Register a table. The store keeps it, and every replica on the store serves it within seconds.

        Its place must lie below a root of the configuration. No other table may be there, inside of it or around
        it.
        """
        return self._call("POST", "/v1/registrations", body=body, answer=bodies.RegistrationBody)

    def remove_table(self, id: str, *, if_match: str | None = None) -> None:
        """Serve a registered table no longer. Its runs end as they would, and no other one begins.

        Nothing of the table is touched.
        """
        self._call("DELETE", f"/v1/registrations/{self._quoted(id)}", headers={"If-Match": if_match})

    def registration(self, id: str) -> bodies.RegistrationBody:
        """Return one table that is registered over the API."""
        return self._call("GET", f"/v1/registrations/{self._quoted(id)}", answer=bodies.RegistrationBody)

    def change_table(
        self, id: str, *, if_match: str | None = None, body: bodies.ChangedTableRequest | None = None
    ) -> bodies.RegistrationBody:
        """Replace the entry of a registered table. If it has a run, the new settings wait for the end of that run.

        Its place and its format stay. A table of the configuration file is changed there.
        """
        return self._call(
            "PUT",
            f"/v1/registrations/{self._quoted(id)}",
            headers={"If-Match": if_match},
            body=body,
            answer=bodies.RegistrationBody,
        )

    def reload(self) -> bodies.ReloadBody:
        """Read the configuration of the daemon that answers again, as SIGHUP does. Runs go on.

        Only `defaults`, `policies` and `tables` are read again. A file with an error changes nothing.
        """
        return self._call("POST", "/v1/reload", answer=bodies.ReloadBody)

    def replicas(self) -> bodies.ReplicaPage:
        """Return the replicas on this store, as this replica knows them, each with the number of its tables."""
        return self._call("GET", "/v1/replicas", answer=bodies.ReplicaPage)

    def resume(self) -> None:
        """End the global pause."""
        self._call("POST", "/v1/resume")

    def runs(
        self,
        *,
        table: str | None = None,
        service: bodies.Service | None = None,
        state: list[bodies.RunState] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> bodies.RunPage:
        """Return runs, the newest first.

        `after` is the id of the run after which the page begins. If the key of the caller is for some tables
        only, a page has their runs among the next 1000 runs.
        """
        return self._call(
            "GET",
            "/v1/runs",
            query={"table": table, "service": service, "state": state, "after": after, "limit": limit},
            answer=bodies.RunPage,
        )

    def run(self, run: str) -> bodies.RunBody:
        """Return one run."""
        return self._call("GET", f"/v1/runs/{self._quoted(run)}", answer=bodies.RunBody)

    def run_log(self, run: str, *, after: int | None = None, limit: int | None = None) -> bodies.LogPage:
        """Return what the worker and its JVM wrote during a run, the oldest line first.

        With `Accept: text/plain` the answer is text. `after` is the number of the last line that is known. The
        log is on the disk of the replica that carried out the run. Another replica passes the request on.
        """
        return self._call(
            "GET", f"/v1/runs/{self._quoted(run)}/log", query={"after": after, "limit": limit}, answer=bodies.LogPage
        )

    def tables(
        self,
        *,
        after: str | None = None,
        limit: int | None = None,
        id: str | None = None,
        format: str | None = None,
        mode: bodies.Mode | None = None,
        blocked: bool | None = None,
        failing: bool | None = None,
        paused: bool | None = None,
        label: str | None = None,
    ) -> bodies.TablePage:
        """Return the registered tables for which the caller is a viewer, by their ids.

        `id` is a pattern with `*` and `?`. `blocked`: a service of the table is blocked. `failing`: the table
        cannot be observed. `label` is a name, or `NAME=VALUE`. `after` is the id after which the page begins.
        """
        return self._call(
            "GET",
            "/v1/tables",
            query={
                "after": after,
                "limit": limit,
                "id": id,
                "format": format,
                "mode": mode,
                "blocked": blocked,
                "failing": failing,
                "paused": paused,
                "label": label,
            },
            answer=bodies.TablePage,
        )

    def table(self, table: str) -> bodies.TableBody:
        """Return one table with its health, its decisions and their reasons."""
        return self._call("GET", f"/v1/tables/{self._quoted(table)}", answer=bodies.TableBody)

    def release_cleans(self, table: str) -> None:
        """End the holds of the caller on the cleans of the table. An operator ends those of all callers."""
        self._call("DELETE", f"/v1/tables/{self._quoted(table)}/barrier")

    def holds(self, table: str) -> bodies.HoldPage:
        """Return the holds on the cleans of the table, the first to end first."""
        return self._call("GET", f"/v1/tables/{self._quoted(table)}/barrier", answer=bodies.HoldPage)

    def hold_cleans(self, table: str, *, body: bodies.BarrierRequest | None = None) -> bodies.BarrierBody:
        """Wait until no clean of the table is executing, and delay new cleans for a time in which to commit.

        503 if the wait runs out. A clean that was delayed for some minutes goes before any further hold.
        """
        return self._call("POST", f"/v1/tables/{self._quoted(table)}/barrier", body=body, answer=bodies.BarrierBody)

    def release_hold(self, table: str, hold: str) -> None:
        """End one hold. 404 if it has ended. 409 if it belongs to another caller, and the caller is no operator."""
        self._call("DELETE", f"/v1/tables/{self._quoted(table)}/barrier/{self._quoted(hold)}")

    def decisions(
        self, table: str, *, service: bodies.Service | None = None, after: int | None = None, limit: int | None = None
    ) -> bodies.DecisionPage:
        """Return the decisions on a table, the newest first, as far as the store has kept them.

        A decision begins when its kind, its remedy or its reason changes. Other numbers in a reason are no
        change.
        """
        return self._call(
            "GET",
            f"/v1/tables/{self._quoted(table)}/decisions",
            query={"service": service, "after": after, "limit": limit},
            answer=bodies.DecisionPage,
        )

    def explain_table(self, table: str, *, at: str | None = None) -> bodies.TableExplanation | bodies.PastExplanation:
        """Explain a table: what blocks it, what its writers do, and the decision on each service with its reason.

        With `at` the answer is what was decided and what ran at that past moment, as far as the store has kept
        it.
        """
        return self._call(
            "GET",
            f"/v1/tables/{self._quoted(table)}/explain",
            query={"at": at},
            answer=bodies.TableExplanation | bodies.PastExplanation,
        )

    def pause_table(self, table: str, *, body: bodies.PauseRequest | None = None) -> None:
        """Pause a table. No more runs are started on it. The next step of a run under way is refused. A commit that
        was permitted already goes on.
        """
        self._call("POST", f"/v1/tables/{self._quoted(table)}/pause", body=body)

    def policies(self, table: str) -> bodies.PoliciesBody:
        """Return the settings of a table that are in force, and where each of them comes from."""
        return self._call("GET", f"/v1/tables/{self._quoted(table)}/policies", answer=bodies.PoliciesBody)

    def table_proof(self, table: str) -> bodies.ProofBody:
        """Return what is proved of a table by its last observation. Nothing is read for it."""
        return self._call("GET", f"/v1/tables/{self._quoted(table)}/proof", answer=bodies.ProofBody)

    def resume_table(self, table: str) -> None:
        """End the pause of a table. Its services leave quarantine and backoff, too."""
        self._call("POST", f"/v1/tables/{self._quoted(table)}/resume")

    def cancel_run(self, table: str, run: str) -> bodies.RunBody:
        """Stop a run that has not begun to commit, and return it. It may still be ending.

        A plan of it stays pending. Its service backs off for ten minutes. 409 if the run has ended, or commits.
        """
        return self._call(
            "POST", f"/v1/tables/{self._quoted(table)}/runs/{self._quoted(run)}/cancel", answer=bodies.RunBody
        )

    def approve(self, table: str, service: str, *, body: bodies.ApprovalRequest | None = None) -> None:
        """Approve the deletion that waits. Its service is due then. The approval counts once, for a day, and for no
        larger deletion. 409 if none waits.
        """
        self._call("POST", f"/v1/tables/{self._quoted(table)}/services/{self._quoted(service)}/approval", body=body)

    def dry_run(self, table: str, service: str) -> bodies.DryRunExplanation:
        """Say what `POST .../runs` would do now: whether a run would begin, and the work that it would do.

        The table is looked at for that. Nothing is changed, and no run is made. The work is that of all that has
        piled up. A run may do it in parts.
        """
        return self._call(
            "GET",
            f"/v1/tables/{self._quoted(table)}/services/{self._quoted(service)}/dry-run",
            answer=bodies.DryRunExplanation,
        )

    def release(self, table: str, service: str) -> None:
        """End the quarantine and the backoff of a service of the table. 404 if there is neither."""
        self._call("DELETE", f"/v1/tables/{self._quoted(table)}/services/{self._quoted(service)}/quarantine")

    def end_rewrite(self, table: str, service: str) -> None:
        """Withdraw a rewrite of all files. What is rewritten already stays. A run of it that is active may finish."""
        self._call("DELETE", f"/v1/tables/{self._quoted(table)}/services/{self._quoted(service)}/rewrite")

    def request_run(self, table: str, service: str, *, body: bodies.RunRequest | None = None) -> bodies.RunBody:
        """Run a service now. The run skips the trigger and the window of the policy. It never skips a block."""
        return self._call(
            "POST",
            f"/v1/tables/{self._quoted(table)}/services/{self._quoted(service)}/runs",
            body=body,
            answer=bodies.RunBody,
        )

    def timeline(
        self,
        table: str,
        *,
        action: str | None = None,
        pending: bool | None = None,
        ours: bool | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> bodies.EntryPage:
        """Return the active instants of a table, the newest first, as they were last observed.

        `action` is the action of the format, such as `deltacommit`. `pending`: the instant is not completed.
        `ours`: a run of ours planned it.
        """
        return self._call(
            "GET",
            f"/v1/tables/{self._quoted(table)}/timeline",
            query={"action": action, "pending": pending, "ours": ours, "after": after, "limit": limit},
            answer=bodies.EntryPage,
        )

    def writer_options(
        self, table: str, *, engine: Literal["spark", "flink", "streamer"] | None = None
    ) -> bodies.WriterOptionsBody:
        """Return the options that a writer of the table must set. 409 if the settings of the table leave one open."""
        return self._call(
            "GET",
            f"/v1/tables/{self._quoted(table)}/writer-options",
            query={"engine": engine},
            answer=bodies.WriterOptionsBody,
        )
