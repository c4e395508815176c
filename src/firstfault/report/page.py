"""The case as one self-contained HTML page: nothing is loaded from elsewhere, and nothing in a case is markup."""

from __future__ import annotations

import jinja2

from firstfault.case.clean import clean
from firstfault.report.document import Document
from firstfault.report.sections import document
from firstfault.report.view import CaseView


def page(view: CaseView) -> str:
    """The page's text."""
    return render(document(view))


def render(whole: Document) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("firstfault.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["clean"] = clean
    return environment.get_template("page.html").render(whole=whole)
