"""The Python client, from the OpenAPI of the API port: `python -m docs.client` writes its two modules anew.

`lakewarden/client/bodies.py` has the bodies, and `lakewarden/client/operations.py` a method for each operation. The
routes for the hooks of writers are left out: writers post there, in the forms of their formats.
"""

from __future__ import annotations

import json
import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

OPENAPI = Path(__file__).parent / "openapi.json"
CLIENT = Path(__file__).parents[1] / "lakewarden" / "client"
BODIES = CLIENT / "bodies.py"
OPERATIONS = CLIENT / "operations.py"

Schema = Mapping[str, Any]

_WRITTEN = "Written by `python -m docs.client` from `docs/openapi.json`. Do not edit."
_WIDTH = 114
_NULL = {"type": "null"}


def modules() -> Mapping[Path, str]:
    """Return the text of each generated module by its file."""
    document = json.loads(OPENAPI.read_text(encoding="utf-8"))
    return {BODIES: _formatted(_bodies(document)), OPERATIONS: _formatted(_operations(document))}


def _bodies(document: Schema) -> str:
    schemas: Mapping[str, Schema] = document["components"]["schemas"]
    enums = [name for name, schema in schemas.items() if "enum" in schema]
    parts = [
        f'"""The bodies of the API, as types of dictionaries. A field may be absent only if it is `NotRequired`.\n\n'
        f'{_WRITTEN}\n"""\n\nfrom __future__ import annotations\n\n'
        "from typing import Any, Literal, NotRequired, TypedDict\n"
    ]
    for name in enums:
        values = ", ".join(json.dumps(value) for value in schemas[name]["enum"])
        parts.append(f"{name} = Literal[{values}]\n{_docstring(_said(schemas[name], name), '')}\n")
    parts += [_body(name, schema) for name, schema in sorted(schemas.items()) if name not in enums]
    return "\n".join(parts)


def _said(schema: Schema, name: str) -> str:
    return str(schema.get("description") or f"See {name} in docs/openapi.json.")


def _body(name: str, schema: Schema) -> str:
    required = set(schema.get("required", ()))
    lines = [f"class {name}(TypedDict):", _docstring(_said(schema, name), "    "), ""]
    for field, known in schema.get("properties", {}).items():
        kind = _type(known, "")
        lines.append(f"    {field}: {kind if field in required else f'NotRequired[{kind}]'}")
        if said := known.get("description"):
            lines.append(_docstring(said, "    "))
    return "\n".join([*lines, ""])


_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def _type(schema: Schema, prefix: str) -> str:
    """Return the annotation of a value."""
    match schema:
        case {"$ref": str(reference)}:
            found = prefix + reference.rpartition("/")[2]
        case {"anyOf": list(choices)} | {"oneOf": list(choices)}:
            some = list(dict.fromkeys(_type(choice, prefix) for choice in choices if choice != _NULL))
            found = " | ".join([*some, *(["None"] if _NULL in choices else [])])
        case {"enum": list(values)}:
            found = f"Literal[{', '.join(json.dumps(value) for value in values)}]"
        case {"const": value}:
            found = f"Literal[{json.dumps(value)}]"
        case {"type": "array", "items": items}:
            found = f"list[{_type(items, prefix)}]"
        case {"type": "object", "additionalProperties": dict(values)}:
            found = f"dict[str, {_type(values, prefix)}]"
        case {"type": "object"}:
            found = "dict[str, Any]"
        case _:
            found = _PLAIN.get(schema.get("type", ""), "Any")
    return found


def _operations(document: Schema) -> str:
    methods: list[str] = []
    for path, known in document["paths"].items():
        for method, operation in known.items():
            if path.startswith("/v1/hooks/"):
                continue
            methods.append(_method(method.upper(), path, operation))
    used = "\n".join(methods)
    typing = ", ".join(name for name in ("Any", "Literal") if re.search(rf"\b{name}\b", used))
    head = (
        '"""The operations of the API, a method for each. Its name is the id of the operation.\n\n'
        f'{_WRITTEN}\n"""\n\n# ruff: noqa: A002 - a parameter has the name that the API gives it\n\n'
        "from __future__ import annotations\n"
        + (f"\nfrom typing import {typing}\n" if typing else "")
        + "\nfrom lakewarden.client import bodies\nfrom lakewarden.client.transport import Transport\n\n\n"
        'class Operations(Transport):\n    """The operations of the API port."""\n\n'
    )
    return head + "\n".join(methods)


def _method(method: str, path: str, operation: Schema) -> str:
    """Return the method of an operation."""
    name, kind = operation["operationId"], answer_of(operation)
    parameters = operation.get("parameters", ())
    content = operation.get("requestBody", {}).get("content", {})
    body = next((_type(known["schema"], "bodies.") for known in content.values()), None)
    sent = [f'"{method}"', _path(path)]
    for place, word in (("query", "query"), ("header", "headers")):
        entries = ", ".join(f"{json.dumps(one['name'])}: {_argument(one)}" for one in parameters if one["in"] == place)
        sent += [f"{word}={{{entries}}}"] if entries else []
    sent += [] if body is None else ["body=body"]
    sent += [] if kind == "None" else [f"answer={kind}"]
    required = [one for one in parameters if one.get("required")]
    optional = [one for one in parameters if not one.get("required")]
    before = [f"{_argument(one)}: {_parameter(one)}" for one in required]
    after = [f"{_argument(one)}: {_parameter(one)} | None = None" for one in optional]
    if body is not None:
        after.append(f"body: {body}{'' if body.endswith('None') else ' | None'} = None")
    call = f"self._call({', '.join(sent)})"
    said = str(operation.get("description") or operation.get("summary") or "")
    return _definition(
        f"{name}({_listed(before, after)}) -> {kind}", said, call if kind == "None" else f"return {call}"
    )


def _listed(before: Sequence[str], after: Sequence[str]) -> str:
    return ", ".join(["self", *before, *(["*", *after] if after else [])])


def _definition(signature: str, said: str, done: str) -> str:
    return "\n".join([f"    def {signature}:", _docstring(said, "        "), f"        {done}", ""])


def answer_of(operation: Schema) -> str:
    """Return the type of the answer to an operation: `None` without a body."""
    for status, answer in sorted(operation["responses"].items()):
        if status.startswith("2"):
            content = answer.get("content", {})
            if "application/json" in content:
                return _type(content["application/json"]["schema"], "bodies.")
            return "str" if content else "None"
    raise ValueError(f"{operation['operationId']} has no answer")


def _path(path: str) -> str:
    if "{" not in path:
        return json.dumps(path)
    return 'f"' + re.sub(r"\{(\w+)\}", r"{self._quoted(\1)}", path) + '"'


def _argument(parameter: Schema) -> str:
    name = re.sub(r"\W", "_", parameter["name"]).lower()
    return f"{name}_" if keyword.iskeyword(name) else name


def _parameter(parameter: Schema) -> str:
    return _type(parameter["schema"], "bodies.").removesuffix(" | None")


def _docstring(said: str, indent: str) -> str:
    paragraphs = [" ".join(paragraph.split()) for paragraph in said.replace("\\", "\\\\").split("\n\n")]
    first, *others = (textwrap.fill(one, _WIDTH - len(indent), break_on_hyphens=False) for one in paragraphs)
    lines = "\n\n".join([first, *others]).splitlines()
    if len(lines) == 1 and not lines[0].endswith('"'):
        return f'{indent}"""{lines[0]}"""'
    return "\n".join([f'{indent}"""{lines[0]}', *(f"{indent}{line}".rstrip() for line in lines[1:]), f'{indent}"""'])


def _formatted(code: str) -> str:
    """Return code in the form that `ruff format` gives it."""
    command = [sys.executable, "-m", "ruff", "format", "--config", "pyproject.toml", "-"]
    root = OPENAPI.parents[1]
    return subprocess.run(command, input=code, capture_output=True, text=True, check=True, cwd=root).stdout


if __name__ == "__main__":
    for file, content in modules().items():
        file.write_text(content, encoding="utf-8")
