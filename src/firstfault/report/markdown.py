"""The case as ``report.md``: facts first, then what was found, each marked as what it is."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.case.findings import Shrink
from firstfault.report import words
from firstfault.report.clean import clean
from firstfault.report.terminal import finding_rows
from firstfault.report.view import CaseView

TITLES = {
    "replay": "Replay",
    "locate": "Where it began",
    "explain": "What kind of fault",
    "contrast": "What sets the batch apart",
    "shrink": "The smallest case",
    "compare": "One change at a time",
    "scan": "The data set",
    "verify": "The fix",
}
KINDS = {"explain": "inference", "contrast": "inference"}  # the others are facts: trials were run
_ESCAPED = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>#|"})


def markdown(view: CaseView) -> str:
    """The whole report."""
    case = view.case
    parts = [
        f"# {_text(words.what_failed(case))}",
        _table(
            [
                ("case", case.id),
                ("seen", f"{words.place(case.failure.seen)}, {words.phase(case)}"),
                ("position", words.position(case)),
                ("steps", words.steps(case.progress.last_completed_step)),
                ("samples", words.samples(case) if case.batch is not None else "no batch"),
                ("fault", view.explain.summary),
                ("first check", view.explain.first_check),
                ("avoid", view.explain.avoid),
                ("versions", f"torch {case.environment.torch}, python {case.environment.python}, {case.environment.backend}"),
            ]
        ),
    ]
    for name, title in TITLES.items():
        finding = view.findings.get(name)
        if finding is None:
            if name in ("replay", "locate", "shrink"):
                parts.append(f"## {title}\n\n*not tested*")
            continue
        parts.append(f"## {title}\n\n*{KINDS.get(name, 'fact')}*\n\n{_table(finding_rows(name, finding))}")
        if isinstance(finding, Shrink) and view.repro is not None:
            parts.append(f"```python\n{view.repro.rstrip()}\n```")
    if case.failure.consequences:
        lines = [f"- {_text(each.exception.type)}: {_text(each.exception.message.splitlines()[0] if each.exception.message else '')}" for each in case.failure.consequences]
        parts.append("## What followed\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _text(text: str) -> str:
    return clean(text).translate(_ESCAPED)


def _table(pairs: Sequence[tuple[str, str]]) -> str:
    rows = [f"| {label} | {_text(text)} |" for label, text in pairs]
    return "\n".join(["| | |", "|---|---|", *rows])
