"""The report as one page of HTML. It loads nothing, so it can be sent by mail and opened anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.printable import printable
from lakewarden.service.commands.places import UnreadLine
from lakewarden.service.commands.report import (
    SERVICE_HEADS,
    TABLE_HEADS,
    LakeReport,
    ServiceLine,
    TableLine,
    service_rows,
    table_cells,
    work_in_words,
)

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #888; --warn: #b07300; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .6rem; text-align: right; vertical-align: top; }
th { color: var(--soft); font-weight: 600; } tr { border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
.soft { color: var(--soft); } .warn { color: var(--warn); }
details summary { cursor: pointer; }
"""
_MOST_STEPS = 50
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page allows itself nothing but its own style, whatever the name of a table holds."""


def page_of(report: LakeReport) -> str:
    """Return the page."""
    return "\n".join(_page(report))


def _page(report: LakeReport) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>The state of a lake</title><style>{_STYLE}</style></head><body>"
    yield "<h1>The state of a lake</h1>"
    yield f'<p class="soft">{_safe(", ".join(report.places))}, read by Lakewarden at {_safe(report.at)}</p>'
    yield from (f"<p>{_safe(line)}</p>" for line in report.summary())
    if report.tables:
        yield "<h2>What each service would do</h2>"
        yield _head(*SERVICE_HEADS)
        yield from (_row(*row) for row in service_rows(report))
        yield "</tbody></table>"
        yield "<h2>Tables, the worst first</h2>"
        yield _head(*TABLE_HEADS)
        for table in report.tables:
            cells = "".join(f"<td>{_safe(cell)}</td>" for cell in table_cells(table))
            yield f"<tr><td>{_details(table)}</td>{cells}</tr>"
        yield "</tbody></table>"
        yield from _steps(report)
    yield from _unread(report.unread)
    yield '<p class="soft">A service is due by the defaults of a daemon. Nothing was changed.</p>'
    yield "</body></html>\n"


def _details(line: TableLine) -> str:
    items = [f"<li>{_service(one)}</li>" for one in line.services]
    items += [f'<li class="warn">{_safe(remark)}</li>' for remark in line.remarks]
    where = f'<p class="soft">{_safe(line.location)}</p>'
    return f"<details><summary>{_safe(line.called)}</summary>{where}<ul>{''.join(items)}</ul></details>"


def _service(line: ServiceLine) -> str:
    text = f"<b>{_safe(line.service)}</b> {line.says}: {_safe(line.decision.reason)}"
    if work := work_in_words(line.work):
        text += f". A run {_safe(work)}"
    if isinstance(line.decision, Blocked) and line.decision.remedy:
        text += f'. <span class="warn">{_safe(line.decision.remedy)}</span>'
    return text


def _steps(report: LakeReport) -> Iterator[str]:
    steps = report.first_steps()
    if not steps:
        return
    yield "<h2>To be done before blocked services can run</h2><ul>"
    for block, tables in steps[:_MOST_STEPS]:
        remedy = f'<br><span class="soft">{_safe(block.remedy.splitlines()[0])}</span>' if block.remedy else ""
        yield f"<li>on {tables} tables: {_safe(block.reason)}{remedy}</li>"
    yield "</ul>"


def _unread(lines: tuple[UnreadLine, ...]) -> Iterator[str]:
    if not lines:
        return
    yield "<h2>Could not be read</h2>"
    yield "<table><tbody>"
    for line in lines:
        yield f'<tr><td>{_safe(line.location)}</td><td style="text-align:left">{_safe(line.reason)}</td></tr>'
    yield "</tbody></table>"


def _head(*headings: str) -> str:
    return f"<table><thead><tr>{''.join(f'<th>{heading}</th>' for heading in headings)}</tr></thead><tbody>"


def _row(*cells: str) -> str:
    return f"<tr>{''.join(f'<td>{_safe(cell)}</td>' for cell in cells)}</tr>"


def _safe(text: str) -> str:
    """Return a text from outside as text of a page."""
    return escape(printable(text))
