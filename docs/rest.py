"""The reference of the routes, from `openapi.json` and `openapi-management.json`. The site shows it below `api.md`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

OPENAPI = Path(__file__).with_name("openapi.json")
OPENAPI_MANAGEMENT = OPENAPI.with_name("openapi-management.json")

Schema = Mapping[str, Any]


def text() -> str:
    """Return the sections of the page."""
    ports = {"API port": OPENAPI, "Management port": OPENAPI_MANAGEMENT}
    known = {heading: json.loads(file.read_text(encoding="utf-8")) for heading, file in ports.items()}
    schemas = {name: schema for port in known.values() for name, schema in port["components"]["schemas"].items()}
    parts = list[str]()
    for heading, port in known.items():
        parts.append(f"## {heading}\n\n")
        parts += [
            _route(path, method, route) for path, methods in port["paths"].items() for method, route in methods.items()
        ]
    return "".join([*parts, "## Bodies\n\n", *(_body(name, schemas[name]) for name in sorted(schemas))])


def _route(path: str, method: str, route: Schema) -> str:
    lines = [f"### {method.upper()} {path}", "", *_paragraphs(route["description"]), *_role(route)]
    parameters = [_parameter(parameter) for parameter in route.get("parameters", ())]
    if parameters:
        lines += ["| parameter | in | type | default |", "|---|---|---|---|", *parameters, ""]
    if "requestBody" in route:
        (content,) = route["requestBody"]["content"].values()
        optional = "" if route["requestBody"].get("required") else ", which may be left out"
        lines += [f"Body: {_type(content['schema']).removesuffix('?')}{optional}.", ""]
    lines += ["| status | body | |", "|---|---|---|", *_answers(route["responses"]), ""]
    return "\n".join(lines) + "\n"


def _role(route: Schema) -> Sequence[str]:
    role, whole = route["x-lakewarden-role"], route["x-lakewarden-whole"]
    if role == "none":
        return ["Role: none. It needs no key.", ""]
    return [f"Role: `{role}`{' for every table' if whole else ''}.", ""]


def _parameter(parameter: Schema) -> str:
    schema = parameter["schema"]
    default = f"`{schema['default']}`" if "default" in schema else "required" if parameter["required"] else ""
    kind = _type(schema).removesuffix("?") + _bounds(schema)
    return f"| `{parameter['name']}` | {parameter['in']} | {kind} | {default} |"


def _answers(responses: Schema) -> Iterator[str]:
    for status, answer in sorted(responses.items()):
        if "$ref" in answer:  # every route may answer so
            continue
        content: Schema = answer.get("content", {})
        bodies = [_type(body["schema"]) if body.get("schema") else f"`{kind}`" for kind, body in content.items()]
        meaning = "" if answer["description"] == "Successful Response" else answer["description"]
        yield f"| {status} | {', '.join(bodies) or 'none'} | {meaning} |"


def _body(name: str, schema: Schema) -> str:
    lines = [f"### {name}", "", *_paragraphs(schema.get("description", ""))]
    if "enum" in schema:
        return "\n".join([*lines, "One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + ".", "", ""])
    required = schema.get("required", ())
    asked = schema.get("additionalProperties") is False  # what is sent to us has defaults; an answer has every field
    lines += ["| field | type | default |", "|---|---|---|"] if asked else ["| field | type |", "|---|---|"]
    for field, known in schema["properties"].items():
        row = f"| `{field}` | {_type(known)}{_bounds(known)} |"
        lines.append(f"{row} {'required' if field in required else _default(known)} |" if asked else row)
    return "\n".join([*lines, "", ""])


def _default(schema: Schema) -> str:
    value = schema.get("default")
    if schema.get("format") == "duration":
        return f"`{str(value).removeprefix('PT').lower()}`"
    return "null" if value is None else f"`{value}`"


def _type(schema: Schema) -> str:
    """Return a type as people read it; `?` at its end says that it may be null."""
    match schema:
        case {"$ref": str(reference)}:
            name = reference.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"anyOf": list(choices)}:
            some = [_type(choice) for choice in choices if choice != {"type": "null"}]
            return " or ".join(some) + ("?" if len(some) < len(choices) else "")
        case {"type": "array", "items": items}:
            return f"list of {_type(items)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"map to {_type(values)}"
        case {"format": "date-time"}:
            return "time"
        case {"format": "duration"}:
            return "duration, as `10s`"
        case {"type": str(name)}:
            return name
    return "any"


def _bounds(schema: Schema) -> str:
    found = next((choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}), schema)
    match found:
        case {"minimum": least, "maximum": most}:
            return f", {least} to {most}"
        case {"maxLength": longest}:
            return f", at most {longest} characters"
    return ""


def _paragraphs(description: str) -> Sequence[str]:
    """Return paragraphs without the breaks of their lines, each followed by an empty line."""
    return [line for paragraph in description.split("\n\n") for line in (" ".join(paragraph.split()), "") if paragraph]
