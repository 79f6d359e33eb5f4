"""`lakewarden keys`: a key is made, listed and revoked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lakewarden.cli import main
from lakewarden.planners.model.clock import SystemClock
from lakewarden.service.model.access import Act, ActKind, Caller, Role
from lakewarden.service.state.api_keys import PUBLIC_KEYS, ApiKeys
from lakewarden.service.store.sql.sqlite import open_sqlite


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "lakewarden.yaml"
    file.write_text("access: {authentication: keys}\n")
    return file


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["keys", *arguments]) == 0
    said = capsys.readouterr().out
    return json.loads(said) if "--json" in arguments else said


def _keys(config: Path) -> ApiKeys:
    store = open_sqlite(config.parent / "lakewarden-data" / "lakewarden.db")
    try:
        return ApiKeys(store=store, clock=SystemClock())
    finally:
        store.close()


def _acts(config: Path) -> Sequence[Act]:
    store = open_sqlite(config.parent / "lakewarden-data" / "lakewarden.db")
    try:
        return store.acts()
    finally:
        store.close()


def test_a_key_is_made_listed_and_revoked(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was made identifies its caller until it is revoked."""
    at = ("--config", str(config))
    made = _run(capsys, "create", "alice", "--role", "trigger", "--tables", "sales.*", "--tables", "hr", *at, "--json")
    caller = Caller(name="alice", role=Role.TRIGGER, tables=("sales.*", "hr"), key=made["id"])
    assert _keys(config).caller(made["key"].encode()) == caller

    [listed] = _run(capsys, "list", *at, "--json")
    assert listed == {name: value for name, value in made.items() if name != "key"}
    assert listed["state"] == "valid"

    assert made["id"] in _run(capsys, "revoke", made["id"], *at)
    assert _keys(config).caller(made["key"].encode()) is None
    assert "revoked" in _run(capsys, "list", *at)
    capsys.readouterr()
    assert main(["keys", "revoke", made["id"], *at]) == 4, "a script can tell it from a command that is wrong"
    assert "'lakewarden keys list' shows all" in capsys.readouterr().err

    revoked, created = _acts(config)
    assert (created.kind, created.after) == (ActKind.KEY_CREATED, f"{made['id']} of alice: trigger of sales.*, hr")
    assert (revoked.kind, revoked.before) == (ActKind.KEY_REVOKED, f"{made['id']} of alice: trigger")


def test_a_key_is_shown_once_and_kept_nowhere(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A thief of the store has hashes only."""
    said = _run(capsys, "create", "alice", "--role", "admin", "--config", str(config))
    [key] = [line for line in said.splitlines() if line.startswith("lwk_")]

    assert key not in _run(capsys, "list", "--config", str(config))
    kept = b"".join(file.read_bytes() for file in config.parent.rglob("*") if file.is_file())
    assert b"alice" in kept
    assert key.encode() not in kept
    assert key.removeprefix("lwk_").encode() not in kept


@pytest.mark.parametrize(
    "arguments",
    [
        ["create", "a b", "--role", "viewer"],
        ["create", "", "--role", "viewer"],
        ["create", "alice", "--role", "viewer", "--tables", "[ab]"],
    ],
)
def test_a_wrong_name_or_pattern_is_refused(
    config: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Nothing is made, and the message says what is wrong."""
    assert main(["keys", *arguments, "--config", str(config)]) == 2
    assert capsys.readouterr().err
    assert _run(capsys, "list", "--config", str(config), "--json") == []


@pytest.mark.parametrize("text", ["soon", "0s", "-1d", "99999d"])
def test_a_wrong_time_is_refused(config: Path, text: str) -> None:
    """A key that never counted, or for ever by accident, helps no person."""
    assert main(["keys", "create", "alice", "--role", "viewer", "--expires", text, "--config", str(config)]) == 2


def test_without_authentication_the_command_says_that_no_key_is_asked_for(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a person would believe that the daemon is protected."""
    config.write_text("tables: []\n")
    assert "access.authentication of this configuration is none" in _run(
        capsys, "create", "alice", "--role", "admin", "--config", str(config)
    )


def test_keys_of_the_configuration_are_listed_too(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A person who asks who has access must see every key. One that is not there, or that the daemon refuses, is
    marked: it is short, a public default, or that of another name.
    """
    (config.parent / "hook_key").write_text("a-secret-of-the-machine-1")
    (config.parent / "same_key").write_text("a-secret-of-the-machine-1")
    (config.parent / "default_key").write_text(max(PUBLIC_KEYS))
    (config.parent / "short_key").write_text("too-short")
    config.write_text(
        "access:\n  authentication: keys\n  keys:\n"
        f"    - {{name: writers, role: hook, tables: [sales.*], key: {{file: {config.parent}/hook_key}}}}\n"
        "    - {name: probe, role: viewer, key: {env: LAKEWARDEN_NO_SUCH_KEY}}\n"
        f"    - {{name: short, role: viewer, key: {{file: {config.parent}/short_key}}}}\n"
        f"    - {{name: default, role: hook, key: {{file: {config.parent}/default_key}}}}\n"
        f"    - {{name: again, role: viewer, key: {{file: {config.parent}/same_key}}}}\n"
    )
    _run(capsys, "create", "alice", "--role", "admin", "--config", str(config))

    alice, writers, probe, short, default, again = _run(capsys, "list", "--config", str(config), "--json")
    said = _run(capsys, "list", "--config", str(config))

    assert (alice["source"], alice["name"]) == ("store", "alice")
    assert {**writers, "created_at": None} == {
        "id": f"{config.parent}/hook_key",
        "source": "configuration",
        "name": "writers",
        "role": "hook",
        "tables": ["sales.*"],
        "state": "valid",
        "created_at": None,
        "created_by": None,
        "expires_at": None,
    }
    assert (probe["id"], probe["state"]) == ("LAKEWARDEN_NO_SUCH_KEY", "missing")
    assert [one["state"] for one in (short, default, again)] == ["refused"] * 3
    assert "hook_key\twriters\thook\tsales.*\tvalid\t\tconfiguration\n" in said
    assert "a-secret-of-the-machine-1" not in said
