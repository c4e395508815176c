"""The short box after a failing run: what failed, where it was seen, how far the run had come, what to do next.

Plain text without a library, since it is printed at the end of a user's run.
"""

from __future__ import annotations

import shutil
import sys
import textwrap

from firstfault.report import words
from firstfault.report.view import CaseView

_WIDEST = 80  # columns; what a terminal, a log and a bug report all show
_LABEL = 10


def box(view: CaseView, width: int | None = None, *, ascii_only: bool | None = None) -> str:
    """The box as text, at most 80 columns wide."""
    if ascii_only is None:
        ascii_only = not _can_draw(sys.stderr.encoding)
    columns = min(width or shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
    inner = max(columns - 4, 36)
    lines = [line for label, text in _rows(view) for line in _row(label, text, inner)]
    corner, side, bar = (("+", "+", "+", "+"), "|", "-") if ascii_only else (("╭", "╮", "╰", "╯"), "│", "─")
    title = " firstfault "
    top = f"{corner[0]}{bar}{title}{bar * (inner + 1 - len(title))}{corner[1]}"
    bottom = f"{corner[2]}{bar * (inner + 2)}{corner[3]}"
    body = [f"{side} {line:<{inner}} {side}" for line in lines]
    drawn = "\n".join([top, *body, bottom])
    return drawn.encode("ascii", "replace").decode() if ascii_only else drawn


def _can_draw(encoding: str | None) -> bool:
    try:
        "╭│…".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _rows(view: CaseView) -> list[tuple[str, str]]:
    case = view.case
    failure = case.failure
    rows = [("failed", words.what_failed(case) + (" (handled by the script, which went on)" if failure.swallowed else ""))]
    rows.append(("seen", f"{words.place(failure.seen)}, {words.phase(case)}"))
    rows.append(("at", f"{words.position(case)}; {words.steps(case.progress.last_completed_step)}"))
    if case.batch is not None:
        rows.append(("samples", words.samples(case)))
    reading = words.failing_sample(case)
    if reading is not None:
        rows.append(("", reading))
    if failure.consequences:
        rows.append(("then", f"{len(failure.consequences)} later failure{'s' if len(failure.consequences) != 1 else ''}, kept as consequence"))
    if case.progress.unstepped and not failure.swallowed:
        numbers = ", ".join(str(each.batch) for each in case.progress.unstepped[:5])
        rows.append(("note", f"handed out {case.progress.handed_out}, stepped {case.progress.last_completed_step}: no step after batch {numbers}"))
    rows.append(("fault", view.explain.summary))
    rows.append(("check", view.explain.first_check))
    rows.append(("case", f"{case.id}"))
    rows.append(("next", "firstfault doctor" if failure.phase == "setup" else "firstfault investigate"))
    return rows


def _row(label: str, text: str, inner: int) -> list[str]:
    wrapped = textwrap.wrap(text, inner - _LABEL, break_long_words=True, break_on_hyphens=False) or [""]
    wrapped = wrapped[:4]
    return [f"{label if number == 0 else '':<{_LABEL}}{line}" for number, line in enumerate(wrapped)]
