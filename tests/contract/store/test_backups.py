"""A PostgreSQL store as one file, by PostgreSQL's own tools."""

from __future__ import annotations

import importlib.util
import io
import os
import shlex
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.commands.backing_up import back_up, restore
from lakewarden.service.store.opening import open_store
from lakewarden.service.store.settings import DatabaseSettings
from tests.support.store.postgres import PostgresServer
from tests.support.values import NOW


@pytest.fixture(autouse=True)
def own_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the tools of the server's own version first: `pg_dump` writes no newer server."""
    package = importlib.util.find_spec("pgserver")
    assert package is not None
    assert package.origin is not None
    monkeypatch.setenv(
        "PATH", os.pathsep.join([str(Path(package.origin).parent / "pginstall" / "bin"), os.environ["PATH"]])
    )


def test_a_postgres_store_is_written_and_comes_back(postgres: PostgresServer, tmp_path: Path) -> None:
    """`restore` changes nothing, and names the command. That command takes back what was written after the backup."""
    url = postgres.make_database()
    config, backup = tmp_path / "lakewarden.yaml", tmp_path / "store.dump"
    config.write_text(f"database: {{url: '{url}'}}\n")
    settings = DatabaseSettings(url=url)
    with closing(open_store(settings, data_dir=tmp_path)) as store:
        store.pause(None, reason="before", at=NOW)
        out = io.StringIO()
        assert back_up(backup, config=config, out=out) == 0
        store.pause(None, reason="later", at=NOW)
    assert "tables" in out.getvalue()

    with pytest.raises(PermanentError, match="stop every daemon on it") as named:
        restore(backup, config=config, out=out)
    command = str(named.value).partition("then run ")[2]
    with closing(open_store(settings, data_dir=tmp_path)) as store:
        assert store.pauses() == {None: "later"}
    subprocess.run(shlex.split(command), check=True, capture_output=True, timeout=120)

    with closing(open_store(settings, data_dir=tmp_path)) as store:
        assert store.pauses() == {None: "before"}


def test_a_database_that_is_no_store_makes_no_backup(postgres: PostgresServer, tmp_path: Path) -> None:
    """A wrong url is found now, and not on the day on which the backup is needed."""
    config, backup = tmp_path / "lakewarden.yaml", tmp_path / "store.dump"
    config.write_text(f"database: {{url: '{postgres.make_database()}'}}\n")

    with pytest.raises(PermanentError, match="no table of runs"):
        back_up(backup, config=config, out=io.StringIO())

    assert [one.name for one in tmp_path.iterdir()] == ["lakewarden.yaml"]
