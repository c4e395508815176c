"""Name the fault of a case, from its facts and from what the other steps found."""

from __future__ import annotations

from firstfault.case.findings import Explain
from firstfault.case.store import CaseFolder
from firstfault.faults.classify import classify_case


def explain(folder: CaseFolder) -> Explain:
    """The fault class of a case; the finding is written into it."""
    found = {step: finding for step, finding in folder.findings().items() if step != "explain"}
    finding = classify_case(folder.facts(), found)
    folder.write_finding("explain", finding)
    return finding
