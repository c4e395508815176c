"""Columns that text takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firstfault.report import cells

TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=80)


@given(TEXTS, st.integers(2, 40))
def test_no_line_is_wider_than_asked(text: str, columns: int) -> None:
    """Wrapping keeps to the width, also inside of long words and with wide characters."""
    assert all(cells.width(line) <= columns for line in cells.wrapped(text, columns))


@given(TEXTS, st.integers(2, 40))
def test_wrapping_loses_nothing_but_blanks(text: str, columns: int) -> None:
    """Every character that isn't a blank is still there, in order."""
    assert "".join("".join(cells.wrapped(text, columns)).split()) == "".join(text.split())


@given(TEXTS, st.integers(4, 40), st.integers(1, 4))
def test_a_limit_of_lines_is_kept_and_said(text: str, columns: int, most: int) -> None:
    """What is left out shows as an ellipsis."""
    whole, lines = cells.wrapped(text, columns), cells.wrapped(text, columns, most)
    assert len(lines) <= most
    assert all(cells.width(line) <= columns for line in lines)
    assert (lines == whole) == (len(whole) <= most)


def test_widths_of_characters() -> None:
    """A Chinese character takes two columns, a combining mark none."""
    assert cells.width("批次") == 4
    assert cells.width("e\u0301") == 1
    assert cells.padded("批", 4) == "批  "
