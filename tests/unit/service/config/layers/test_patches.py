"""What several levels say together."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.table import SettingOrigin
from lakewarden.service.config.document import Values
from lakewarden.service.config.layers.patches import NOTHING, Patch, combined, of_levels, origins, patch_of, plain

_KEYS = st.sampled_from(["a", "b", "provider", "type", "trigger", "window"])
_LEAVES = st.integers(0, 3) | st.none() | st.just(False) | st.lists(st.integers(0, 3), max_size=2)
_SAID = st.dictionaries(
    _KEYS, st.recursive(_LEAVES, lambda below: st.dictionaries(_KEYS, below, max_size=3)), max_size=3
)


@st.composite
def _levels(draw: st.DrawFn) -> list[Patch]:
    return [patch_of(draw(_SAID), name) for name in ("defaults", "policy", "pattern", "table")]


@given(levels=_levels())
def test_levels_may_be_combined_in_any_grouping(levels: list[Patch]) -> None:
    """So what a policy and a pattern say together can be kept, and given to thousands of tables."""
    a, b, c, d = levels

    assert combined(combined(a, b), combined(c, d)) == combined(a, combined(combined(b, c), d)) == of_levels(a, b, c, d)
    assert combined(NOTHING, a) == of_levels(a)


@given(general=_SAID, special=_SAID)
def test_a_more_special_level_wins(general: dict[str, Any], special: dict[str, Any]) -> None:
    """Each value that it says is in force. Each value that it does not say is that of the general level, or is gone
    with the whole value that it belonged to.
    """
    both = of_levels(patch_of(general, "defaults"), patch_of(special, "table"))
    said = dict(_leaves(plain(both)))

    for key, value in _leaves(special):
        assert said[key] == value
    assert said.items() <= {**dict(_leaves(general)), **dict(_leaves(special))}.items() or not said
    for key, origin in origins(both):
        level = special if origin.level == "table" else general
        assert _at(level, key) is not _MISSING


@given(special=_SAID)
def test_a_choice_is_replaced_as_a_whole(special: dict[str, Any]) -> None:
    """The keys of one lock mean nothing to another lock, and half a trigger is another trigger."""
    general = {"lock": {"provider": 1, "url": 2}, "trigger": {"num_commits": 5}}
    both = plain(
        of_levels(
            patch_of(general, "policy"),
            patch_of({"lock": {**special, "provider": 2}, "trigger": special}, "table"),
        )
    )

    assert both == {"lock": {**special, "provider": 2}, "trigger": special}


def test_each_value_knows_its_level_and_its_line() -> None:
    """Lines of a table's own entry are counted from its first line: thousands of entries then share their origins."""
    (first, second) = Values("- id: a\n  options: {x: 1}\n- id: a\n  options: {x: 1}\n").read()
    one, other = (patch_of(entry, "table", relative_to=entry.line) for entry in (first, second))

    assert one == other
    assert dict(origins(one))["options.x"] == SettingOrigin(level="table", line=1, relative=True)
    assert dict(origins(patch_of(second, "defaults")))["options.x"] == SettingOrigin(level="defaults", line=4)


_MISSING = object()


def _at(value: Any, key: str) -> Any:
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return _MISSING
        value = value[part]
    return value


def _leaves(value: dict[str, Any], at: str = "") -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, below in value.items():
        found += _leaves(below, f"{at}.{key}") if isinstance(below, dict) else [(f"{at}.{key}", repr(below))]
    return found
