"""What every report is made from: the facts, the findings, and the fault class as far as it is known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from firstfault.case.findings import Explain, Finding
from firstfault.case.schema import Case, Fact
from firstfault.case.store import CaseFolder
from firstfault.faults.classify import classify_case


class CaseView(Fact, frozen=True, kw_only=True):
    """One case, ready to be shown. ``repro`` is the text of ``repro.py``, when there is one."""

    case: Case
    findings: Mapping[str, Finding]
    explain: Explain
    folder: Path | None = None
    repro: str | None = None


def view_of(folder: Path) -> CaseView:
    """Read a case for showing.

    Raises:
        UsageError: a file of the case is damaged or newer than this firstfault.
    """
    opened = CaseFolder(folder)
    case = opened.facts()
    findings = opened.findings()
    explain = findings.get("explain")
    repro = folder / "repro.py"
    return CaseView(
        case=case,
        findings=findings,
        explain=explain if isinstance(explain, Explain) else classify_case(case, findings),
        folder=folder,
        repro=repro.read_text(errors="replace") if repro.is_file() else None,
    )


def as_json(view: CaseView) -> dict[str, Any]:
    """The machine contract's form of a case: facts, the fault, and ``findings.STEP`` as far as made."""
    facts = msgspec.to_builtins(view.case)
    facts["failure"] = {"fault": view.explain.fault, "family": view.explain.family, **facts["failure"]}
    facts["findings"] = {step: msgspec.to_builtins(finding) for step, finding in view.findings.items()}
    facts["folder"] = str(view.folder) if view.folder is not None else None
    return facts
