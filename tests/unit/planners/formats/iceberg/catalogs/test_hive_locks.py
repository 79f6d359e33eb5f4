"""Tables of a Hive metastore to which clients commit without locks."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from lakewarden.planners.formats.iceberg.catalogs.hive import why_commits_may_be_lost
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog

_SETTINGS: TypeAdapter[Any] = TypeAdapter(Catalog)
OF_A_TABLE, OF_A_CLIENT = "engine.hive.lock-enabled", "hadoop.iceberg.engine.hive.lock-enabled"


def hive(**more: Any) -> Any:
    return _SETTINGS.validate_python({"type": "hive", "uri": "thrift://metastore:9083", **more})


@pytest.mark.parametrize(
    ("of_a_table", "of_our_catalog", "of_the_jvm", "blocked"),
    [
        (None, None, None, False),
        ("true", "false", "false", False),
        ("TRUE", None, None, False),
        ("false", "true", None, True),
        ("no", None, None, True),  # Iceberg takes any other word for false
        (None, "false", None, True),
        (None, None, "false", True),
        (None, "true", "false", False),
        (None, " False ", None, True),
        (None, "no", None, False),  # and Hadoop's configuration for its default
    ],
)
def test_a_table_without_locks_is_blocked_unless_the_metastore_compares_pointers(
    of_a_table: str | None, of_our_catalog: str | None, of_the_jvm: str | None, blocked: bool
) -> None:
    """The table comes first, then the settings of our catalog, then those of the JVM. The reason names the setting."""
    properties = {} if of_a_table is None else {OF_A_TABLE: of_a_table}
    given = {} if of_our_catalog is None else {OF_A_CLIENT: of_our_catalog}

    found = why_commits_may_be_lost(properties, hive(properties=given), client=of_the_jvm)

    assert (found is not None) is blocked
    if found is not None:
        assert "engine.hive.lock-enabled=false" in found.reason
        assert found.reason.startswith("the table" if of_a_table is not None else "our client")
        assert "compares_pointers: true" in found.remedy
    comparing = hive(properties=given, compares_pointers=True)
    assert why_commits_may_be_lost(properties, comparing, client=of_the_jvm) is None


def test_only_hive_catalogs_take_locks_of_a_metastore() -> None:
    """The property means nothing in another catalog, and stays when a table moves there."""
    properties = {OF_A_TABLE: "false"}
    rest = _SETTINGS.validate_python({"type": "rest", "uri": "http://catalog:8181"})

    assert why_commits_may_be_lost(properties, rest, client="false") is None
    assert why_commits_may_be_lost(properties, None) is None
