"""Sharing tables out, whatever the replicas know and hold: by themselves they come to a state that is fair."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.store.sharing import shared_out

REPLICAS = [ReplicaId(f"replica {number}") for number in range(5)]
TABLES = [f"/lake/{number}" for number in range(12)]
SOME_TABLES = st.sets(st.sampled_from(TABLES))


@pytest.mark.long
@given(
    living=st.sets(st.sampled_from(REPLICAS), min_size=1),
    tables=SOME_TABLES,
    held=st.dictionaries(st.sampled_from(TABLES), st.sampled_from(REPLICAS)),
    busy=SOME_TABLES,
)
def test_every_table_is_soon_owned_once_and_busy_ones_stay(
    living: set[ReplicaId], tables: set[str], held: dict[str, ReplicaId], busy: set[str]
) -> None:
    """Three rounds are enough; after them nobody moves a table any more."""
    now = {table: holder for table, holder in held.items() if holder in living}
    stays = {table: holder for table, holder in now.items() if table in busy}

    def go_round() -> dict[str, ReplicaId]:
        after = dict(now)
        for replica in sorted(living):
            mine = shared_out(replica, living=living, held=after, locations=tables, busy=busy)
            others = {table: holder for table, holder in after.items() if holder != replica}
            assert not mine & others.keys()
            after = {**others, **dict.fromkeys(mine, replica)}
        return after

    for _ in range(3):
        now = go_round()

    assert tables <= now.keys()
    assert stays.items() <= now.items()
    assert now.keys() - stays.keys() <= tables
    assert go_round() == now
    fair = -(-len(now) // len(living))
    for replica in living:
        mine = {table for table, holder in now.items() if holder == replica}
        assert len(mine) <= fair or mine <= busy
