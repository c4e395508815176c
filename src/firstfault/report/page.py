"""The case as one self-contained HTML page: nothing is loaded from elsewhere, and nothing in a case is markup.

Three walls: every text goes through :func:`clean` and Jinja's escaping; the page's policy lets only this style sheet and
this script act, by their hashes; no attribute that acts (``href``, ``src``, ``style``, ``on…``) is ever made from a case.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib import resources

import jinja2
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from firstfault.case.clean import clean
from firstfault.report import plots
from firstfault.report.document import Code, Document
from firstfault.report.sections import document
from firstfault.report.view import CaseView

_TEMPLATES = "templates"
_MOST_HIGHLIGHTED = 20_000  # characters; a lexer is slower than a browser on longer ones


def page(view: CaseView) -> str:
    """The page's text."""
    return render(document(view))


def render(whole: Document) -> str:
    """A report set as a page."""
    style, script = _packaged("page.css"), _packaged("copy.js")
    return (
        _environment()
        .get_template("page.html")
        .render(
            whole=whole,
            kind_and_message=_parted(whole.title),
            kind_of=lambda block: type(block).__struct_config__.tag,
            plots=plots,
            coded=coded,
            style=Markup(style),
            script=Markup(script),
            style_hash=_hash(style),
            script_hash=_hash(script),
        )
    )


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("firstfault.report", _TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["clean"] = clean
    return environment


def coded(block: Code) -> Markup:
    """A program with its words coloured; anything else as it is."""
    text = clean(block.text, lines=True).rstrip("\n")
    if block.language != "python" or len(text) > _MOST_HIGHLIGHTED:
        return Markup("{}").format(text)
    return Markup(
        highlight(text, get_lexer_by_name("python", stripnl=False), HtmlFormatter(nowrap=True)).rstrip("\n")
    )


def _parted(title: str) -> tuple[str, str]:
    """An exception's type and its message; the message is empty when the title has no type before it."""
    type_, colon, message = title.partition(": ")
    return (f"{type_}:", message) if colon and re.fullmatch(r"[\w.]+", type_) else (title, "")


def _packaged(name: str) -> str:
    return resources.files("firstfault.report").joinpath(_TEMPLATES, name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """A source in a content security policy: CSP level 3, section 2.3.1."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
