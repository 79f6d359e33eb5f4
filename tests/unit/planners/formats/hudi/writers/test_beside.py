"""Which writes in flight conflict with a change of some partitions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.writers.activity import meeting, silent_writes, touched_in_flight
from lakewarden.planners.model.instant import State
from lakewarden.planners.model.view import WriterActivity
from tests.support.values import NOW, an_instant

ALIVE = an_instant(time="00000010", state=State.INFLIGHT, guarded_until=NOW + timedelta(minutes=1))
NEVER_BEAT = an_instant(time="00000020", state=State.REQUESTED)
DEAD = an_instant(time="00000030", state=State.INFLIGHT, guarded_until=NOW - timedelta(minutes=1))
PATHS = st.frozensets(st.sampled_from(["", "a", "b", "c"]))


def _writing(**said: frozenset[str]) -> WriterActivity:
    """Return three writes in flight. Those that are named say what they touch."""
    times = {"alive": ALIVE.time, "never_beat": NEVER_BEAT.time, "dead": DEAD.time}
    return WriterActivity(
        in_flight=(ALIVE, NEVER_BEAT, DEAD), touching={times[name]: paths for name, paths in said.items()}
    )


@given(PATHS, st.dictionaries(st.sampled_from(["alive", "never_beat", "dead"]), PATHS))
def test_a_silent_write_is_in_the_way_of_everything(
    changed: frozenset[str], said: Mapping[str, frozenset[str]]
) -> None:
    """A live write conflicts unless it says that it writes elsewhere. A dead write never fails by us."""
    met = meeting(_writing(**said), changed, NOW)

    for name, write in (("alive", ALIVE), ("never_beat", NEVER_BEAT)):
        touches_some = bool(said[name] & changed) if name in said else bool(changed)
        assert (write in met) == touches_some
    assert DEAD not in met


def test_a_write_is_silent_until_it_says_where() -> None:
    """A dead write is not silent: waiting for it to say something would never end."""
    assert silent_writes(_writing(), NOW) == (ALIVE, NEVER_BEAT)
    assert silent_writes(_writing(alive=frozenset("a")), NOW) == (NEVER_BEAT,)
    assert silent_writes(_writing(alive=frozenset("a"), never_beat=frozenset()), NOW) == ()


def test_what_a_dead_write_has_begun_counts_as_touched() -> None:
    """Hudi compares our clustering with the file groups that its inflight file names, also if the writer is dead."""
    assert touched_in_flight(_writing(dead=frozenset("a"), alive=frozenset("b"))) == frozenset("ab")
