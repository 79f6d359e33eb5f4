"""The admission: which connections a port takes, for how long, and which it closes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.service.config.daemon.http_limits import LimitSettings
from lakewarden.service.http.guard.admission import Admission, Connection, Phase
from lakewarden.service.model.refusals import (
    BODIES,
    CONNECTIONS,
    CONNECTIONS_BY_SENDER,
    MADE_ROOM,
    NO_FIRST_BYTE,
    RATE,
    REQUESTS,
    SLOW_BODY,
    SLOW_HEAD,
    UNREAD,
    Refusal,
)

LIMITS = LimitSettings(connections=8, connections_by_sender=4, requests_by_sender=2, bodies="1MiB")
ONE, OTHER = "10.0.0.1", "10.0.0.2"


class TrackedAdmission:
    """An admission, with all connections that it ever took and the refusals that ended them."""

    def __init__(self) -> None:
        self.told: list[Refusal] = []
        self.gone: dict[Connection, Refusal] = {}
        self.admission = Admission(
            LIMITS, on_refusal=lambda refusal, _sender: self.told.append(refusal), always=["/livez"]
        )

    def enter(self, sender: str, at: float = 0.0, phase: Phase = Phase.FIRST_BYTE) -> Connection:
        """Let one in, whether there is room or not."""

        def leave(refusal: Refusal) -> None:
            self.gone[connection] = refusal
            self.admission.remove(connection)

        connection = Connection(sender=sender, since=at, leave=leave, phase=phase)
        self.admission.add(connection)
        return connection


@pytest.mark.parametrize(
    ("phase", "seconds", "refusal"),
    [
        (Phase.FIRST_BYTE, 5, NO_FIRST_BYTE),
        (Phase.HEAD, 10, SLOW_HEAD),
        (Phase.BODY, 30, SLOW_BODY),
        (Phase.REST, 30, SLOW_BODY),
        (Phase.NEXT, 16, NO_FIRST_BYTE),
    ],
)
def test_each_phase_has_its_time(phase: Phase, seconds: float, refusal: Refusal) -> None:
    """A connection leaves when its time is over, and not before."""
    tracked = TrackedAdmission()
    connection = tracked.enter(ONE, phase=phase)

    tracked.admission.sweep(seconds)
    assert not tracked.gone
    tracked.admission.sweep(seconds + 0.1)
    assert tracked.gone == {connection: refusal}


def test_nobody_leaves_because_we_are_slow() -> None:
    """A request that waits for our answer, as one for a barrier does, has all the time."""
    tracked = TrackedAdmission()
    tracked.enter(ONE, phase=Phase.ANSWER)

    tracked.admission.sweep(1e6)

    assert not tracked.gone


def test_an_answer_that_is_not_taken_is_given_up() -> None:
    """Its time begins when the client no longer reads, whatever was read before."""
    tracked = TrackedAdmission()
    deaf = tracked.enter(ONE, phase=Phase.ANSWER)
    tracked.admission.unread(deaf, 1000, 100.0)

    tracked.admission.sweep(130.0)
    assert not tracked.gone
    tracked.admission.sweep(130.1)
    assert tracked.gone == {deaf: UNREAD}


def test_the_slowest_of_a_sender_makes_room_for_its_newest() -> None:
    """A sender that leaves connections open loses those, and can still send."""
    tracked = TrackedAdmission()
    first, *_ = [tracked.enter(ONE, at) for at in range(4)]

    assert tracked.admission.room_for(ONE, 5.0) is None
    assert tracked.gone == {first: MADE_ROOM}


def test_a_crowd_makes_room_for_a_newcomer() -> None:
    """Where all places are taken, the sender that has most gives one up: not somebody else."""
    tracked = TrackedAdmission()
    for at in range(4):
        tracked.enter(f"10.1.0.{at}", -100)
    crowd = [tracked.enter(ONE, at) for at in range(4)]

    assert tracked.admission.room_for(OTHER, 5.0) is None
    assert tracked.gone == {crowd[0]: MADE_ROOM}


def test_a_request_at_work_is_not_interrupted_for_another() -> None:
    """Where every connection is one that we owe an answer, the newcomer is told so."""
    tracked = TrackedAdmission()
    for _ in range(4):
        tracked.enter(ONE, phase=Phase.ANSWER)
    assert tracked.admission.room_for(ONE, 1e6) is CONNECTIONS_BY_SENDER
    for _ in range(4):
        tracked.enter(OTHER, phase=Phase.ANSWER)
    assert tracked.admission.room_for("10.0.0.3", 1e6) is CONNECTIONS
    assert not tracked.gone


def test_a_body_that_hurries_is_left_alone() -> None:
    """An upload may be turned out for another client after a second, and waits for its turn until then."""
    tracked = TrackedAdmission()
    uploads = [tracked.enter(ONE, phase=Phase.BODY) for _ in range(4)]

    assert tracked.admission.room_for(ONE, 0.9) is CONNECTIONS_BY_SENDER
    assert tracked.admission.room_for(ONE, 1.1) is None
    assert set(tracked.gone) < set(uploads)


def test_what_was_answered_makes_room_before_what_waits_to_be_heard() -> None:
    """A crowd whose bodies never end, and were refused long ago, pushes no probe out."""
    tracked = TrackedAdmission()
    answered = [tracked.enter(ONE, phase=Phase.REST) for _ in range(3)]
    probe = tracked.enter(ONE, 0.5)

    assert tracked.admission.room_for(ONE, 0.6) is None
    assert set(tracked.gone) < set(answered)
    assert probe not in tracked.gone


def test_who_has_spoken_stays_before_who_is_silent() -> None:
    """That we have not read it yet is no fault of a probe's; where all have spoken, the first one makes room."""
    tracked = TrackedAdmission()
    probe, silent, *_ = [tracked.enter(ONE, at) for at in range(4)]
    probe.speaks = lambda: True

    assert tracked.admission.room_for(ONE, 5.0) is None
    assert tracked.gone == {silent: MADE_ROOM}


def test_all_bodies_together_are_bounded_and_the_largest_goes() -> None:
    """A small hook is taken beside uploads that fill all that there is."""
    tracked = TrackedAdmission()
    large, small = tracked.enter(ONE, phase=Phase.BODY), tracked.enter(OTHER, phase=Phase.BODY)
    tracked.admission.keeps_body(large, 2**20)

    tracked.admission.keeps_body(small, 500)

    assert tracked.gone == {large: BODIES}
    assert tracked.told == [BODIES]


def test_a_sender_has_a_rate_and_probes_have_none() -> None:
    """Two in a second, twenty at once, and again when it has waited; a probe is always answered."""
    tracked = TrackedAdmission()
    connection = tracked.enter(ONE)

    def takes(path: bytes, now: float) -> Refusal | None:
        return tracked.admission.takes(connection, path, under_way=0, now=now)

    assert [takes(b"/v1/runs", 0.0) for _ in range(20)] == [None] * 20
    assert takes(b"/v1/runs", 0.0) is RATE
    assert takes(b"/livez", 0.0) is None
    assert [takes(b"/v1/runs", 1.0) for _ in range(3)] == [None, None, RATE]


def test_requests_whose_clients_have_gone_count_until_they_end() -> None:
    """Who asks and hangs up does not pile up work."""
    tracked = TrackedAdmission()
    connection = tracked.enter(ONE)

    assert tracked.admission.takes(connection, b"/v1/tables", under_way=8, now=0.0) is REQUESTS


@given(
    st.lists(
        st.tuples(
            st.sampled_from([f"10.0.0.{n}" for n in range(5)]),
            st.sampled_from(Phase),
            st.floats(0, 3),
            st.integers(0, 2**19),
        ),
        max_size=60,
    )
)
def test_no_order_of_arrivals_exceeds_a_limit(arrivals: list[tuple[str, Phase, float, int]]) -> None:
    """Whoever comes, in whatever state, with whatever body: neither connections nor bytes are more than they may be."""
    tracked, now = TrackedAdmission(), 0.0
    inside: list[Connection] = []
    for sender, phase, later, size in arrivals:
        now += later
        if tracked.admission.room_for(sender, now) is None:
            connection = tracked.enter(sender, now, phase)
            inside.append(connection)
            tracked.admission.keeps_body(connection, size)
        here = [connection for connection in inside if connection not in tracked.gone]
        assert len(here) <= LIMITS.connections
        assert all(sum(one.sender == who for one in here) <= LIMITS.connections_by_sender for who in (ONE, OTHER))
        assert sum(one.held for one in here) <= LIMITS.bodies
