"""The examples on the pages are valid: every YAML block, every command with its options, every route."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from bench.__main__ import EVERYTHING
from docs import openapi
from helm.schema import SCHEMA
from lakewarden.cli.app import app
from lakewarden.service.config.check import check_config
from lakewarden.service.config.settings import Configuration

ROOT = Path(__file__).parents[3]
PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    ROOT / "helm" / "lakewarden" / "README.md",
]
DEV = (ROOT / "dev").read_text(encoding="utf-8")
PYTEST = {"-m", "-k"}
"""The options of `./dev test` that are pytest's own."""

_LAKEWARDEN: Any = typer.main.get_command(app)
_PATHS = {path: set(methods) for port in openapi.documented().values() for path, methods in port["paths"].items()}


def text_of(page: Path) -> str:
    """Return the text of a page."""
    return page.read_text(encoding="utf-8")


def _blocks() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for number, block in enumerate(re.findall(r"^```yaml\n(.*?)^```", text_of(page), re.DOTALL | re.MULTILINE)):
            yield f"{page.relative_to(ROOT)}-{number}", block


def commands(word: str, *, in_text: bool = True) -> Iterator[tuple[str, list[str]]]:
    """Yield page and words of every command that begins with `word`, in blocks of code and between backticks. If not
    `in_text`, only those in blocks.
    """
    for page in PAGES:
        text = text_of(page)
        fenced = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
        indented = "\n".join(re.findall(r"^    (\S.*)$", text, re.MULTILINE))
        spans = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE))
        lines = re.sub(r"\\\n\s*", "", f"{fenced}\n{indented}").splitlines()
        for line in (*lines, *(" ".join(span.split()) for span in spans if in_text)):
            found = re.search(rf"(?:^|(?<=\s)){re.escape(word)} (.*)$", line)
            if found and re.match(r"[a-z]", found[1]) and "helm " not in line[: found.start()]:
                yield page.name, _words(found[1])


def _words(command: str) -> list[str]:
    return shlex.split(re.split(r"\s[;&|>]", command)[0], comments=True)


def _options(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-z][a-z-]*(=.*)?", word)}


@pytest.mark.parametrize(("name", "block"), [pytest.param(*found, id=found[0]) for found in _blocks()])
def test_every_block_of_yaml_is_taken(name: str, block: str, tmp_path: Path) -> None:
    """A configuration is checked as the daemon checks it: alone, as the services of a table, or in values of the chart.
    Any other block must be an object of Kubernetes.
    """
    content = yaml.safe_load(block)
    keys = set(content)
    values = set(yaml.safe_load((ROOT / "helm" / "lakewarden" / "values.yaml").read_text()))
    if keys <= set(Configuration.model_fields):
        assert _problems(content, tmp_path) == []
    elif keys == {"services"}:
        table = {"id": "t", "format": "hudi", "path": str(tmp_path / "t"), **content}
        assert _problems({"tables": [table]}, tmp_path) == []
    elif keys <= values:
        assert _problems(content["config"], tmp_path) == []
        assert keys <= set(json.loads(SCHEMA.read_text())["properties"])
    else:
        assert {"metadata", "spec"} <= keys, name


def _problems(content: object, folder: Path) -> list[str]:
    file = folder / "lakewarden.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    said = StringIO()
    check_config(file, as_json=True, out=said)
    found = json.loads(said.getvalue())["problems"]
    return [f"{problem['key']}: {problem['message']}" for problem in found if problem["severity"] == "error"]


def test_yaml_stands_in_blocks_that_are_checked() -> None:
    """A configuration that is only indented would not be checked."""
    keys = "|".join(sorted(Configuration.model_fields))
    outside = (re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE) for page in PAGES)
    assert [line for text in outside for line in re.findall(rf"^ +(?:{keys}):(?: .*)?$", text, re.MULTILINE)] == []


def test_every_command_of_lakewarden_has_its_verb_and_its_options() -> None:
    """The parsers of the command line itself decide."""
    found = [*commands("lakewarden"), *commands("./dev lakewarden")]
    wrong = [
        (page, words)
        for page, words in found
        if (known := _options_of(_LAKEWARDEN, words)) is None or not _options(words) <= known
    ]
    assert len(found) > 25
    assert wrong == []


def _options_of(command: Any, words: list[str]) -> set[str] | None:
    """Return the options of a command, or None if there is no such command. A verb may have verbs of its own. Without
    the name of one, it may be `list`.
    """
    below = getattr(command, "commands", None)
    if below is None:
        return {"--help", *(option for one in command.params for option in (*one.opts, *one.secondary_opts))}
    if words and words[0] in below:
        return _options_of(below[words[0]], words[1:])
    named = bool(words) and not words[0].startswith("-")
    return (
        None
        if named and command is _LAKEWARDEN
        else _options_of(below["list"], words)
        if "list" in below
        else {"--help"}
    )


def test_every_command_of_dev_has_its_verb_and_its_options() -> None:
    """The script itself and the parsers of its programs decide."""
    verbs = set(re.findall(r"\b[a-z]+\b", " ".join(re.findall(r"^    ([a-z |]+)\)", DEV, re.MULTILINE))))
    found = [*commands("./dev")]
    wrong = [
        (page, words)
        for page, words in found
        if words[0] not in verbs or not _options(words) <= _known(words[0]) or not _benches(words) <= set(EVERYTHING)
    ]
    assert {"test", "demo", "bench", "live", "faults", "fuzz", "chart"} <= verbs
    assert len(found) > 40
    assert wrong == []


def _known(verb: str) -> set[str]:
    """Return the options of a command of `./dev`, by the code that reads them."""
    match verb:
        case "lakewarden":
            return set().union(*(_options_of(_LAKEWARDEN, [name]) or () for name in _LAKEWARDEN.commands))
        case "demo":
            return _options_of(_LAKEWARDEN, ["demo"]) or set()
        case "bench" | "faults" | "fuzz" | "live" | "flink":
            folder = ROOT / "live" / "flink" if verb == "flink" else ROOT / verb
            code = "\n".join(text_of(file) for file in folder.rglob("*.py"))
            return set(re.findall(r'add_argument\(\s*"(--[a-z-]+)"', code))
    return {*re.findall(r"--[a-z-]+", DEV), *(PYTEST if verb == "test" else ())}


def _benches(words: list[str]) -> set[str]:
    """Return the names that a `./dev bench` measures, without the values of its options and without placeholders."""
    if words[0] != "bench":
        return set()
    names = [word for before, word in pairwise(words) if not before.startswith("--")]
    return {name for name in names if re.fullmatch(r"[a-z0-9_]+", name)}


def test_every_module_that_is_started_is_there() -> None:
    """`python -m ...` is checked in blocks of code and between backticks."""
    found = {name for page in PAGES for name in re.findall(r"python -m ([a-z_.]+[a-z])", text_of(page))} - {"pip"}

    assert {"docs.metrics", "docs.openapi", "docs.benchmarks", "helm.schema"} <= found
    assert [name for name in sorted(found) if importlib.util.find_spec(name) is None] == []


def _is_served(method: str, address: str) -> bool:
    path = address.partition("?")[0].rstrip("/") or "/"
    for known, methods in _PATHS.items():
        pattern = "".join(
            ".+" if part.startswith("{path_of") else "[^/]+" if part.startswith("{") else re.escape(part)
            for part in re.split(r"(\{\w+\})", known)
        )
        if re.fullmatch(pattern, path) and method.lower() in methods:
            return True
    return False


def test_every_route_that_a_page_names_is_served() -> None:
    """The form is `METHOD /v1/...` between backticks. `...` stands for any part."""
    found = {
        (page.name, method, path)
        for page in PAGES
        for method, path in re.findall(r"\b(GET|POST|DELETE|PUT) (/v1[^`\s|,]*)", text_of(page))
    }
    assert len(found) > 15
    assert [one for one in sorted(found) if not _is_served(*one[1:])] == []


def test_every_curl_asks_for_a_route_that_is_served() -> None:
    """The method counts, and the host does not."""
    found = []
    for page in PAGES:
        for line in re.sub(r"\\\n\s*", "", text_of(page)).splitlines():
            asked = re.search(r"\bcurl (.*)", line)
            address = re.search(r"https?://[^/\s]+(/[^\s'\"]*)", asked[1]) if asked else None
            if asked and address:
                said = re.search(r"-X ?([A-Z]+)", asked[1])
                found.append((page.name, said[1] if said else "GET", address[1]))

    assert len(found) > 8
    assert [one for one in found if not _is_served(*one[1:])] == []
