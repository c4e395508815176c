"""The Markdown report."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

import sample_cases
from firstfault.report.markdown import coded, fenced, markdown, text
from firstfault.report.view import CaseView


def test_every_section_is_there(view: CaseView) -> None:
    """Sections whose step has not been done say so instead of missing."""
    whole = markdown(view)
    for title in (
        "What is known",
        "The run",
        "Getting it back",
        "Where it began",
        "The smallest case",
        "The fix",
        "Environment",
    ):
        assert f"\n## {title}\n" in whole
    for name, title in (("replay", "Getting it back"), ("verify", "The fix")):
        if name not in view.findings:
            assert re.search(rf"## {title}\n\n\*open question\* · Not tested", whole)


def test_repro_stands_in_a_code_block() -> None:
    """The program can be copied as it is."""
    assert f"```python\n{sample_cases.REPRO.rstrip()}\n```" in markdown(sample_cases.index_error())


def test_tables_have_as_many_cells_as_columns(view: CaseView) -> None:
    """No cell's text breaks a table."""
    widths: list[int] = []
    for line in markdown(view).splitlines():
        if not line.startswith("|"):
            widths = []
            continue
        widths.append(len(re.findall(r"(?<!\\)\|", line)))
        assert widths[-1] == widths[0]


def test_hostile_text_is_no_markup() -> None:
    """Outside of code there is no tag, link, image, mention or template of the case's own."""
    whole = markdown(sample_cases.hostile())
    outside = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", whole)
    outside = re.sub(r"(?m)^(`+) .* \1:$", "", outside)
    assert not re.search(r"(?<!\\)<(?!/?details>|/?summary>)", outside)
    assert not re.search(r"(?<!\\)\]\(", outside)
    assert "http://" not in outside
    assert "@everyone" not in outside
    assert not set(whole) & set("\x1b\x07\u202e")


@given(st.text(max_size=120))
def test_text_never_opens_anything(raw: str) -> None:
    """Every character that Markdown reads is escaped, and the text stays one line."""
    safe = text(raw)
    assert "\n" not in safe
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]<>|~]", re.sub(r"\\[`*_\[\]<>|~\\]", "", safe))


@given(st.text(alphabet="`~a\n #", max_size=40))
def test_a_fence_is_never_closed_from_inside(raw: str) -> None:
    """The only line that closes the block is its last one."""
    lines = fenced(raw).splitlines()
    assert lines[0] == lines[-1]
    assert not any(line.strip().startswith(lines[0]) for line in lines[1:-1])


@given(st.text(alphabet="`a ", min_size=1, max_size=20))
def test_a_code_span_is_never_closed_from_inside(raw: str) -> None:
    """The ends are longer than any run of backticks between them."""
    span = coded(raw)
    end = re.match(r"`+", span)[0]  # type: ignore[index]
    assert span.endswith(end)
    if "`" in raw:
        assert all(len(run) < len(end) for run in re.findall(r"`+", span[len(end) : -len(end)]))
