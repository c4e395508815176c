"""The sections of a report, in the order of reading: what is known, the run, then each step's finding."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from firstfault.case.findings import Finding
from firstfault.report import words
from firstfault.report.document import Document, Note, Section
from firstfault.report.sections.batch import batch
from firstfault.report.sections.beginning import beginning
from firstfault.report.sections.contrast import contrast
from firstfault.report.sections.dataset import dataset
from firstfault.report.sections.environment import environment
from firstfault.report.sections.fault import fault
from firstfault.report.sections.fix import fix
from firstfault.report.sections.glance import glance
from firstfault.report.sections.known import known
from firstfault.report.sections.memory import memory
from firstfault.report.sections.reproduction import reproduction
from firstfault.report.sections.run import run
from firstfault.report.sections.smallest import smallest
from firstfault.report.sections.variants import variants
from firstfault.report.view import CaseView

_STEPS: dict[str, tuple[str, Callable[[Any, CaseView | None], Section]]] = {
    "replay": ("Getting it back", reproduction),
    "locate": ("Where it began", beginning),
    "explain": ("What kind of fault", fault),
    "contrast": ("What sets the batch apart", contrast),
    "shrink": ("The smallest case", smallest),
    "compare": ("One change at a time", variants),
    "scan": ("The data set", dataset),
    "verify": ("The fix", fix),
}


def document(view: CaseView) -> Document:
    """The whole report. A step that has not been done has its section too, which says so."""
    case = view.case
    batch_and_memory = [batch(view), *([held] if (held := memory(view)) is not None else [])]
    order = ("replay", "locate", "batch", "contrast", "shrink", "compare", "scan", "verify")
    steps = [
        each for name in order for each in (batch_and_memory if name == "batch" else [of_step(name, view)])
    ]
    recorded = time.strftime("%Y-%m-%d %H:%M", time.localtime(case.created))
    return Document(
        title=words.what_failed(case),
        subtitle=f"case {case.id}, recorded {recorded} by firstfault {case.firstfault}",
        glance=glance(view),
        sections=(known(view), fault(view.explain, view), run(view), *steps, environment(view)),
    )


def of_step(name: str, view: CaseView) -> Section:
    """A step's section in a report, also when the step has not been done."""
    finding = view.findings.get(name)
    if finding is None:
        title = _STEPS[name][0]
        command = words.next_command(name)
        return Section(
            name=name,
            title=title,
            kind="open question",
            lead=f"Not tested. Next: {command} {view.case.id}" if command else "Not tested.",
        )
    return of_finding(name, finding, view)


def of_finding(name: str, finding: Finding, view: CaseView | None = None) -> Section:
    """One finding as a section. What a step could not do is said before whatever it found all the same."""
    section = _STEPS[name][1](finding, view)
    if finding.not_done is None:
        return section
    nothing = finding == type(finding)(
        summary=finding.summary, not_done=finding.not_done, seconds=finding.seconds, trials=finding.trials
    )
    blocks = () if nothing else section.blocks
    lead = "" if finding.summary and finding.not_done in finding.summary else finding.summary
    return msgspec.structs.replace(
        section,
        kind="open question",
        lead=lead or f"Not done: {finding.not_done}",
        blocks=(*((Note(text=f"Not done: {finding.not_done}"),) if lead else ()), *blocks),
    )


__all__ = ["document", "of_finding", "of_step"]
