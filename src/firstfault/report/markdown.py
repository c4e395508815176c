"""The case as ``report.md``: the same sections as the page, in Markdown that GitHub and editors read."""

from __future__ import annotations

import re

from firstfault.case.clean import clean
from firstfault.report.document import Block, Code, Events, Note, Pairs, Section, Statements, Table
from firstfault.report.sections import document
from firstfault.report.view import CaseView

_ESCAPED = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>#|~!$&"})
_STARTS = re.compile(
    r"^(\s*)([-+=]|\d+[.)])"
)  # of a line: would be a list, a heading's underline, or a number
_LINKED = re.compile(
    r"\b(https?|ftp)://|\bwww\.|@(?=\w)"
)  # GitHub links addresses and notifies people named with @
_BREAK = "\N{ZERO WIDTH NON-JOINER}"


def markdown(view: CaseView) -> str:
    """The whole report."""
    whole = document(view)
    parts = [f"# {text(whole.title)}", text(whole.subtitle)]
    for section in whole.sections:
        parts += _section(section)
    return "\n\n".join(part for part in parts if part) + "\n"


def text(raw: str) -> str:
    """A text that Markdown shows as it is: nothing in it is markup, a link or a mention."""
    escaped = clean(raw).translate(_ESCAPED)
    escaped = _LINKED.sub(
        lambda found: (
            found[0]
            .replace("://", f":{_BREAK}//")
            .replace("www.", f"www{_BREAK}.")
            .replace("@", f"@{_BREAK}")
        ),
        escaped,
    )
    return _STARTS.sub(r"\1\\\2", escaped)


def fenced(raw: str, language: str = "") -> str:
    """A code block whose fence is longer than any run of backticks inside."""
    inside = clean(raw.rstrip("\n"), lines=True)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", inside)), default=0))
    return f"{fence}{language}\n{inside}\n{fence}"


def coded(raw: str) -> str:
    """A code span, its ends longer than any run of backticks inside."""
    inside = clean(raw)
    end = "`" * (1 + max((len(run) for run in re.findall(r"`+", inside)), default=0))
    return f"{end}{inside}{end}" if len(end) == 1 else f"{end} {inside} {end}"


def _section(section: Section) -> list[str]:
    kind = "" if section.name == "known" else f"*{section.kind}* · "
    lead = f"{kind}{text(section.lead)}" if section.lead else kind.removesuffix(" · ")
    return [f"## {section.title}", lead, *(_block(block) for block in section.blocks)]


def _block(block: Block) -> str:
    """A block's form in Markdown; a figure is its sentence."""
    if isinstance(block, Pairs):
        return "\n".join(f"- {text(label)}: {text(value)}" for label, value in block.rows)
    if isinstance(block, Events):
        return "\n".join(
            f"{number}. **{text(label)}**: {text(said)}"
            for number, (label, said, _) in enumerate(block.rows, 1)
        )
    if isinstance(block, Statements):
        items = "\n".join(f"- {text(item)}" for item in block.items) or "- none"
        return f"### {block.kind.capitalize()}\n\n{items}"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Code):
        code = fenced(block.text, block.language)
        if block.folded:
            return f"<details><summary>{block.folded}</summary>\n\n{code}\n\n</details>"
        return f"{coded(block.name)}:\n\n{code}" if block.name else code
    if isinstance(block, Note):
        return text(block.text)
    return f"*{text(block.said)}*"


def _table(table: Table) -> str:
    caption = f"{text(table.caption)}:\n\n" if table.caption else ""
    lines = [f"| {' | '.join(table.columns)} |", f"|{'---|' * len(table.columns)}"]
    lines += [f"| {' | '.join(text(cell) for cell in row)} |" for row in table.rows]
    return caption + "\n".join(lines)
