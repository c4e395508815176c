"""The case as one self-contained HTML page: nothing is loaded from elsewhere, and nothing in a case is markup."""

from __future__ import annotations

import time
from typing import Any

import jinja2

from firstfault.report import words
from firstfault.report.clean import clean
from firstfault.report.markdown import KINDS, TITLES
from firstfault.report.terminal import finding_rows
from firstfault.report.view import CaseView

_EXPECTED = ("replay", "locate", "explain", "shrink")  # steps whose absence is worth saying


def page(view: CaseView) -> str:
    """The page's text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("firstfault.report"), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["clean"] = clean
    return environment.get_template("page.html").render(**_context(view))


def _context(view: CaseView) -> dict[str, Any]:
    case = view.case
    sections = []
    for name, title in TITLES.items():
        finding = view.findings.get(name)
        if finding is None and name not in _EXPECTED:
            continue
        sections.append(
            {
                "name": name,
                "title": title,
                "kind": "open question" if finding is None or finding.not_done else KINDS.get(name, "fact"),
                "rows": [] if finding is None else finding_rows(name, finding),
                "missing": finding is None,
            }
        )
    located = view.findings.get("locate")
    return {
        "title": words.what_failed(case),
        "case": case,
        "explain": view.explain,
        "sections": sections,
        "facts": [
            ("Seen at", f"{words.place(case.failure.seen)}, {words.phase(case)}"),
            ("Position", words.position(case)),
            ("Steps", words.steps(case.progress.last_completed_step)),
            ("Samples", words.samples(case) if case.batch is not None else "no batch was in progress"),
        ]
        + ([("Reading", reading)] if (reading := words.failing_sample(case)) else []),
        "timeline": _timeline(view),
        "trail": getattr(located, "trail", ()),
        "words": words,
        "repro": view.repro,
        "recorded": time.strftime("%Y-%m-%d %H:%M", time.localtime(case.created)),
        "version": case.firstfault,
    }


def _timeline(view: CaseView) -> list[tuple[str, str]]:
    """What happened, in order: how far the run came, the first failure, what followed."""
    case = view.case
    events = [("ran", f"{case.progress.handed_out:,} batches handed out, {words.steps(case.progress.last_completed_step)}")]
    handled = " The script handled it and went on." if case.failure.swallowed else ""
    events.append(("first failure", f"{words.what_failed(case)}.{handled}"))
    for consequence in case.failure.consequences:
        said = f"{consequence.exception.type}: {consequence.exception.message}".splitlines()[0]
        events.append(("consequence", said))
    return events
