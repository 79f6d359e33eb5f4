"""Roles, and the tables of a key."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakewarden.service.model.access import Caller, Role, new_key

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_roles_have_an_order_and_hooks_stand_apart() -> None:
    """A viewer changes nothing, and a hook reads nothing. An operator may do what a trigger may do."""
    included = {role: {other for other in Role if role.includes(other)} for role in Role}
    assert included == {
        Role.VIEWER: {Role.VIEWER},
        Role.HOOK: {Role.HOOK},
        Role.TRIGGER: {Role.VIEWER, Role.TRIGGER},
        Role.OPERATOR: {Role.VIEWER, Role.HOOK, Role.TRIGGER, Role.OPERATOR},
        Role.ADMIN: set(Role),
    }


@pytest.mark.parametrize(
    ("patterns", "reached", "not_reached"),
    [
        (("*",), ["sales.orders", "x"], []),
        (("sales.*",), ["sales.orders", "sales."], ["sales", "Sales.orders", "hr.sales.orders"]),
        (("sales.orders",), ["sales.orders"], ["sales.orders2", "sales_orders", "sales.orders\n"]),
        (("a?", "b"), ["ab", "b"], ["a", "abc"]),
    ],
)
def test_a_pattern_is_for_the_whole_id(patterns: tuple[str, ...], reached: list[str], not_reached: list[str]) -> None:
    """A dot is a dot, and letters have their case."""
    caller = Caller(name="c", role=Role.VIEWER, tables=patterns)
    assert [table for table in (*reached, *not_reached) if caller.reaches(table)] == reached
    assert caller.reaches_everything == ("*" in patterns)


def test_keys_are_long_and_differ() -> None:
    """A key has 43 random characters of 64, so it cannot be guessed, and its plain hash is enough."""
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {len("lwk_") + 43}
