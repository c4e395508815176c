"""Findings and cases on a terminal: aligned, readable at 80 columns, without colour, in a log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from firstfault.case.findings import Explain, Finding, Locate, Replay, Shrink
from firstfault.case.store import CaseFolder
from firstfault.errors import UsageError
from firstfault.report import words
from firstfault.report.clean import clean
from firstfault.report.view import CaseView, view_of

_LABEL = 11
_MAX_CONDITIONS = 12


def console() -> Console:
    """A console that neither guesses markup in what it is given nor highlights it."""
    return Console(markup=False, highlight=False, soft_wrap=False)


def step_line(name: str, finding: Finding) -> str:
    """One step's result in one line, for ``investigate``."""
    seconds = f" ({finding.seconds:.0f} s, {finding.trials} trials)" if finding.trials else ""
    return f"{name:<{_LABEL}}{clean(finding.summary or finding.not_done or 'done')}{seconds}"


def rows(pairs: Sequence[tuple[str, str]]) -> Table:
    """Labelled rows, the text wrapped beside its label."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=_LABEL - 1, style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in pairs:
        table.add_row(label, Text(text))
    return table


def show(view: CaseView) -> None:
    """A whole case."""
    out = console()
    case = view.case
    out.print(Text(f"case {case.id}", style="bold"))
    out.print(rows(_facts(view)))
    if not view.findings:
        out.print("\nnothing has been found out yet; next: firstfault investigate")
    for name, finding in view.findings.items():
        out.print(Text(f"\n{name}", style="bold"))
        out.print(rows(finding_rows(name, finding)))


def _facts(view: CaseView) -> list[tuple[str, str]]:
    case, failure = view.case, view.case.failure
    pairs = [
        ("failed", words.what_failed(case) + (" (handled by the script)" if failure.swallowed else "")),
        ("seen", f"{words.place(failure.seen)}, {words.phase(case)}"),
        ("at", f"{words.position(case)}; {words.steps(case.progress.last_completed_step)}"),
    ]
    if case.batch is not None:
        pairs.append(("samples", words.samples(case)))
    if (reading := words.failing_sample(case)) is not None:
        pairs.append(("", reading))
    if failure.modules:
        pairs.append(("modules", clean(" > ".join(failure.modules))))
    for consequence in failure.consequences[:3]:
        pairs.append(("then", clean(f"{consequence.exception.type}: {consequence.exception.message}".splitlines()[0])))
    pairs += [("fault", view.explain.summary), ("check", view.explain.first_check), ("avoid", view.explain.avoid)]
    environment = case.environment
    pairs.append(("versions", f"torch {environment.torch}, python {environment.python}, {environment.backend}"))
    pairs.append(("recorded", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(case.created))))
    return pairs


def show_finding(name: str, finding: Finding) -> None:
    console().print(rows(finding_rows(name, finding)))


def finding_rows(name: str, finding: Finding) -> list[tuple[str, str]]:
    """A finding as labelled rows."""
    if finding.not_done is not None:
        return [("not done", clean(finding.not_done))]
    pairs = [("result", clean(finding.summary))]
    if isinstance(finding, Replay):
        pairs.append(("runs", f"{finding.same} of {finding.runs} failed in the same way"))
        pairs.append(("plan", finding.plan or ", ".join(finding.plans_tried)))
    elif isinstance(finding, Locate):
        pairs += _located(finding)
    elif isinstance(finding, Explain):
        pairs += [("check", finding.first_check), ("avoid", finding.avoid)]
        pairs += [("evidence", clean(each)) for each in finding.evidence[:4]]
        pairs += [("also", ", ".join(finding.also))] if finding.also else []
    elif isinstance(finding, Shrink):
        pairs += [("needed" if each.needed else "not needed", clean(f"{each.what} ({each.evidence})")) for each in finding.conditions[:_MAX_CONDITIONS]]
        pairs += [("script", finding.repro)] if finding.repro else []
    return pairs


def _located(finding: Locate) -> list[tuple[str, str]]:
    pairs = []
    for label, frame in (("began", finding.began), ("forward", finding.forward), ("changed", finding.changed_at)):
        if frame is not None:
            pairs.append((label, f"{words.place(frame)}: {clean(frame.code or '')}"))
    if finding.module:
        pairs.append(("module", clean(finding.module)))
    for argument in finding.arguments[:6]:
        if argument.shape is not None:
            extent = f", from {argument.minimum:g} to {argument.maximum:g}" if argument.minimum is not None and argument.maximum is not None else ""
            pairs.append(("argument", f"{argument.name}: {argument.dtype}{list(argument.shape)} on {argument.device}{extent}"))
    for violation in finding.violations:
        for element in violation.elements[:4]:
            source = f", sample {element.sample} at position {element.position} of leaf {element.leaf}" if element.sample is not None else ""
            pairs.append(("at fault", clean(f"{violation.argument}{list(element.index)} = {element.value}, allowed {violation.allowed}{source}")))
    return pairs


def list_rows(cases: Sequence[CaseFolder]) -> list[dict[str, Any]]:
    """The cases as plain rows; a damaged one says so."""
    found = []
    for folder in cases:
        try:
            view = view_of(folder.path)
        except UsageError as error:
            found.append({"id": folder.id, "failed": f"can't be read: {error}", "fault": None, "created": None, "found": []})
            continue
        found.append(
            {
                "id": folder.id,
                "failed": words.what_failed(view.case),
                "fault": view.explain.fault,
                "created": view.case.created,
                "found": list(view.findings),
            }
        )
    return found


def show_list(found: Sequence[dict[str, Any]]) -> None:
    out = console()
    if not found:
        out.print("no cases here; record one with: firstfault run SCRIPT")
        return
    table = Table(box=None, pad_edge=False)
    for title, options in (("case", {"no_wrap": True}), ("fault", {"no_wrap": True}), ("failed", {"overflow": "ellipsis", "no_wrap": True})):
        table.add_column(title, **options)  # type: ignore[arg-type]
    for row in found:
        table.add_row(row["id"], row["fault"] or "?", Text(clean(row["failed"])))
    out.print(table)


def show_doctor(found: Any) -> None:
    out = console()
    environment = found.environment
    pairs = [("torch", f"{environment.torch or 'not found'} ({environment.backend}), python {environment.python}, {environment.platform}")]
    if environment.cuda or environment.hip:
        pairs.append(("built for", f"CUDA {environment.cuda}" if environment.hip is None else f"ROCm {environment.hip}"))
    for check in found.devices:
        name = f" {check.name}" if check.name else ""
        pairs.append((check.device, f"{'computes' if check.ok else 'FAILS'}{name}{f': {clean(check.said)}' if check.said else ''} ({check.seconds:.2f} s)"))
    pairs += [("advice", clean(each)) for each in found.advice]
    out.print(rows(pairs))
