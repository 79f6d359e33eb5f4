"""The page of the routes, from the OpenAPI of both ports: `python -m docs.rest` writes `rest.md` anew."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from pydantic import TypeAdapter

from docs.nothing import empty_room
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.settings import format_duration
from lakewarden.service.http.api import build_api
from lakewarden.service.http.management import build_management
from lakewarden.service.model.refusals import ENDED, REFUSALS

PAGE = Path(__file__).parent / "rest.md"
OPENAPI = PAGE.with_name("openapi.json")
OPENAPI_MANAGEMENT = PAGE.with_name("openapi-management.json")

Schema = Mapping[str, Any]

_HEAD = """\
# REST

<!-- Written by `python -m docs.rest` from the OpenAPI of both ports. Do not edit. -->

The daemon has two ports. The API port (`api.port`, 8080) answers people, programs and writers. Its `/openapi.json`
describes it for machines, and so does [openapi.json](openapi.json). The
management port (`management.port`, 8081) answers probes and Prometheus. The hooks may
have a third port (`hooks.port`).

Bodies are JSON. Times are RFC 3339 in UTC. The names of fields have their units. If the type of a field ends in `?`, it
may be null. Every error has the same body, a [ProblemBody](#problembody)
(`application/problem+json`, RFC 9457).

A list has one page: `{"items": [...], "next": CURSOR}`. To read the next page, send the cursor as `after`. `next` is
null on the last page.

    curl -s http://127.0.0.1:8080/v1/tables/sales.orders
    curl -s -X POST http://127.0.0.1:8080/v1/tables/sales.orders/services/compaction/runs
    curl -s -X POST http://127.0.0.1:8080/v1/tables/sales.orders/pause -H 'content-type: application/json' \\
         -d '{"reason": "a migration of the writers"}'

Each answer to a GET below `/v1` has an `ETag`. A client that polls sends it as `If-None-Match`. While nothing has
changed, it gets 304 without a body. Ages, such as `observed_seconds_ago` and `run_seconds`, do not count
as a change. A tag holds for the role and the tables of the key.

If `access.authentication` is `keys`, every request needs an API key with the role of its route
([security.md](security.md)): `-H "X-API-Key: KEY"`.

A client that gets no answer to a request that acts may send it again: a trigger returns the run that is active, and a
second pause, approval or cancellation changes nothing.

With several replicas, any replica answers a request about any table. If a replica does not own the table, it passes
the request on to the owner.

"""

_REFUSED = """\
## Refused by every port

A port may refuse a request before a route sees it. The body is a `ProblemBody`, too. What is no HTTP/1.1, and a head of
more than 16 KiB that comes in pieces, is answered with 400 and a line of text. The metric
`lakewarden_http_refused_total` counts the refusals by `kind`. An unexpected error is answered with 500 and the code
`internal`. The log of the daemon has the cause.

| kind | status | code | message | remedy |
|---|---|---|---|---|
"""


_ENDED = """
A port ends these connections without an answer, and counts them by the same metric:

| kind | reason |
|---|---|
"""


def documented() -> Mapping[str, Schema]:
    """Return the OpenAPI of each port by its heading."""
    plane = empty_room().status
    return {
        "API port": _openapi(build_api(plane, clock=SystemClock(), hook_heard=lambda _heard: None)),
        "Management port": _openapi(build_management(plane, CollectorRegistry())),
    }


def text() -> str:
    """Return the page."""
    ports = documented()
    schemas = {name: schema for port in ports.values() for name, schema in port["components"]["schemas"].items()}
    parts = [_HEAD]
    for heading, port in ports.items():
        parts.append(f"## {heading}\n\n")
        parts += [
            _route(path, method, route) for path, methods in port["paths"].items() for method, route in methods.items()
        ]
    parts.append("## Bodies\n\n")
    parts += [_body(name, schemas[name]) for name in sorted(schemas)]
    rows = [f"| `{r.kind}` | {r.status.value} | `{r.code}` | {r.message} | {r.remedy or ''} |\n" for r in REFUSALS]
    ended = [f"| `{kind}` | {meaning} |\n" for kind, meaning in ENDED.items()]
    return "".join([*parts, _REFUSED, *rows, _ENDED, *ended])


def _openapi(app: FastAPI) -> Schema:
    return app.openapi()


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
        return f"`{format_duration(TypeAdapter(timedelta).validate_python(value))}`"
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


def described() -> Mapping[Path, str]:
    """Return the OpenAPI of each port by its file, as it is committed."""
    files = dict(zip(documented(), (OPENAPI, OPENAPI_MANAGEMENT), strict=True))
    return {file: json.dumps(documented()[port], indent=1, sort_keys=True) + "\n" for port, file in files.items()}


if __name__ == "__main__":
    for file, content in described().items():
        file.write_text(content, encoding="utf-8")
    PAGE.write_text(text(), encoding="utf-8")
