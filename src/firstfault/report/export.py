"""A case for somebody else, as one ``.zip``: facts, findings, reports and ``repro.py``, without what is private.

The batch's values, the random states, the journal and the copies of source files stay here.
"""

from __future__ import annotations

from pathlib import Path

from firstfault.case.archive import write_archive
from firstfault.case.known_secrets import Known
from firstfault.case.schema import Fact
from firstfault.report.markdown import markdown
from firstfault.report.page import page
from firstfault.report.redacted import redacted, review
from firstfault.report.view import view_of


class Exported(Fact, frozen=True, kw_only=True):
    """What was written, and the list to read before it is sent."""

    path: Path
    review: str


def export(folder: Path, target: Path, known: Known | None = None) -> Exported:
    """Write a case's folder as one zip.

    Raises:
        UsageError: the case is damaged, or the file can't be written.
    """
    view, redactor = redacted(view_of(folder), known)
    texts = {"report.md": markdown(view), "report.html": page(view)}
    if view.repro is not None:
        texts["repro.py"] = view.repro
    return Exported(path=write_archive(target, view.case, view.findings, texts), review=review(redactor))
