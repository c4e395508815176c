"""A view without what is private, ready to be set in any form; and the list that a person reads before it leaves."""

from __future__ import annotations

from firstfault.case.known_secrets import Known, known_here
from firstfault.case.public import allowed, known_of, public_case, public_findings
from firstfault.case.redaction import STAYS, Redactor
from firstfault.report import words
from firstfault.report.view import CaseView


def redacted(view: CaseView, known: Known | None = None) -> tuple[CaseView, Redactor]:
    """The view that may leave, and the redactor that made it, for further texts and for its ledger.

    ``known`` is what is private on this machine; it is looked up when not given.
    """
    redactor = Redactor((known_here() if known is None else known) | known_of(view.case, view.findings))
    public = CaseView(
        case=public_case(view.case, redactor),
        findings=public_findings(view.findings, redactor),
        explain=allowed(view.explain, redactor),
        folder=None,
        repro=None if view.repro is None else redactor.text(view.repro),
    )
    return public, redactor


def review(redactor: Redactor) -> str:
    """What was replaced, how often, and what stays: plain lines, without values."""
    replaced = [f"  {words.counted(count, rule)}" for rule, count in redactor.ledger.items()] or ["  nothing"]
    return "\n".join(["Replaced:", *replaced, "Stays:", *(f"  {each}" for each in STAYS)])
