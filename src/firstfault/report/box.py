"""The short box after a failing run: what failed, where it was seen, how far the run had come, what to do next.

Printed at the end of a user's run, so it is plain text that needs no library.
"""

from __future__ import annotations

import os
import shutil
import sys

from firstfault.case.clean import clean
from firstfault.report import cells, words
from firstfault.report.view import CaseView

WIDEST = 80  # columns; what a terminal, a log and a bug report all show
NARROWEST = 40  # below, the text is no longer readable beside its labels
_LABEL = 10
_LINES = 4  # of one row
_RED, _DIM, _BOLD, _PLAIN = "\x1b[1;31m", "\x1b[2m", "\x1b[1m", "\x1b[0m"


def box(
    view: CaseView, *, width: int | None = None, ascii_only: bool | None = None, colour: bool | None = None
) -> str:
    """The box as text of at most 80 columns.

    What is left None is read off standard error: its width, whether its encoding can draw lines, and colour, which only
    a terminal gets, and not with NO_COLOR set (no-color.org).
    """
    if ascii_only is None:
        ascii_only = not _can_draw(getattr(sys.stderr, "encoding", None))
    if colour is None:
        colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    columns = max(min(width or shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST), NARROWEST)
    inner = columns - 4
    corners, side, bar = ("++++", "|", "-") if ascii_only else ("╭╮╰╯", "│", "─")
    title = " firstfault "
    top = corners[0] + bar + title + bar * (inner + 1 - len(title)) + corners[1]
    body = [
        f"{side} {_painted(label, line, inner) if colour else label + cells.padded(line, inner - _LABEL)} {side}"
        for name, text in _rows(view)
        for label, line in _row(name, text, inner, ascii_only)
    ]
    return "\n".join([top, *body, corners[2] + bar * (inner + 2) + corners[3]])


def _can_draw(encoding: str | None) -> bool:
    try:
        "╭╮╰╯│─…".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _rows(view: CaseView) -> list[tuple[str, str]]:
    case = view.case
    failure = case.failure
    handled = " (handled by the script, which went on)" if failure.swallowed else ""
    late = "; reported late, so it began earlier" if words.reported_late(case) else ""
    rows = [
        ("failed", words.what_failed(case) + handled),
        ("seen", f"{words.place(failure.seen)}, {words.phase(case)}{late}"),
        ("at", f"{words.position(case)}; {words.steps(case.progress.last_completed_step)}"),
    ]
    rows += [("device", each.text) for each in failure.device_asserts[:1]]
    if case.batch is not None:
        rows.append(("samples", words.samples(case)))
    if (reading := words.failing_sample(case)) is not None:
        rows.append(("reading", reading))
    if failure.consequences:
        rows.append(
            ("then", f"{words.counted(len(failure.consequences), 'later failure')}, kept as consequence")
        )
    if case.progress.unstepped and not failure.swallowed:
        rows.append(("note", _unstepped(view)))
    rows += [
        ("fault", view.explain.summary),
        ("check", view.explain.first_check),
        ("case", case.id),
        ("next", "firstfault doctor" if failure.phase == "setup" else "firstfault investigate"),
    ]
    return rows


def _unstepped(view: CaseView) -> str:
    progress = view.case.progress
    numbers = words.listed([each.batch for each in progress.unstepped], 5)
    handed_out = words.counted(progress.handed_out, "batch")
    return (
        f"{handed_out} handed out, {words.steps(progress.last_completed_step)}: no step after batch {numbers}"
    )


def _row(name: str, text: str, inner: int, ascii_only: bool) -> list[tuple[str, str]]:
    """Pairs of a label's column and a line, the label on the first one only."""
    text = clean(text)
    if ascii_only:
        text = text.replace("…", "...").encode("ascii", "backslashreplace").decode()
    lines = cells.wrapped(text, inner - _LABEL, _LINES)
    if ascii_only:
        lines = [line.replace(" …", "..") for line in lines]
    return [(f"{name if number == 0 else '':<{_LABEL}}", line) for number, line in enumerate(lines)]


def _painted(label: str, line: str, inner: int) -> str:
    style = {"failed": _RED, "next": _BOLD}.get(label.strip(), "")
    blanks = " " * (inner - _LABEL - cells.width(line))
    return f"{_DIM}{label}{_PLAIN}{style}{line}{_PLAIN if style else ''}{blanks}"
