"""The box after a failing run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

import sample_cases
from firstfault.report import cells
from firstfault.report.box import NARROWEST, WIDEST, box
from firstfault.report.view import CaseView


@pytest.mark.parametrize("width", [20, 40, 63, 80, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_every_line_is_as_wide_as_the_box(view: CaseView, width: int, ascii_only: bool) -> None:
    """The box keeps its right border at any width, with wide characters and long words too."""
    lines = box(view, width=width, ascii_only=ascii_only, colour=False).splitlines()
    assert {cells.width(line) for line in lines} == {max(min(width, WIDEST), NARROWEST)}


def test_it_says_what_where_when_which_and_what_next() -> None:
    """What failed, where it was seen, pass and batch counted from 0, steps, samples, fault, first check, next command."""
    text = _joined(box(sample_cases.index_error(), width=80, ascii_only=True, colour=False))
    for said in (
        "IndexError: Target 4 is out of bounds.",
        "train.py:41 in main, in the forward pass",
        "loader 0 (train_loader), pass 0, batch 34 (counted from 0)",
        "34 steps completed",
        "727, 1086, 878",
        "(16 samples)",
        "an index lies outside of what it points into",
        "Compare the smallest and the largest index",
        "firstfault investigate",
    ):
        assert said in text


def test_a_late_report_is_not_taken_for_the_place() -> None:
    """On a device that reports late the box says so, and quotes what the device printed."""
    text = _joined(box(sample_cases.device_assert(), width=80, ascii_only=True, colour=False))
    assert "reported late, so it began earlier" in text
    assert "srcIndex < srcSelectDimSize" in text
    assert "3 later failures, kept as consequence" in text


def test_a_failure_in_a_worker_shows_the_worker_s_own_exception() -> None:
    """The wrapper that torch puts around a worker's exception is not what failed."""
    text = _joined(box(sample_cases.collate_in_worker(), width=80, ascii_only=True, colour=False))
    assert "RuntimeError: stack expects each tensor to be equal size" in text
    assert "Caught RuntimeError" not in text
    assert "put together in worker 1" in text


def test_setup_points_to_doctor() -> None:
    """Before any loader was used, the next step is doctor, and no batch is invented."""
    text = _joined(box(sample_cases.setup(), width=80, ascii_only=True, colour=False))
    assert "firstfault doctor" in text
    assert "before any loader was used" in text
    assert "samples" not in text
    assert 'Missing key(s) in state_dict: "head.weight"' in text


def test_a_swallowed_failure_says_so() -> None:
    """The script handled the failure and went on; the box says both."""
    assert "handled by the script" in _joined(
        box(sample_cases.swallowed(), width=80, ascii_only=True, colour=False)
    )


def test_plain_without_a_terminal_and_coloured_with_one() -> None:
    """Escapes are written only where colour is asked for, and they change nothing else."""
    view = sample_cases.index_error()
    plain, coloured = box(view, width=80, colour=False), box(view, width=80, colour=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert plain != coloured


def test_an_encoding_without_box_characters_gets_ascii() -> None:
    """The fall-back uses ASCII alone, whatever the case holds."""
    for make in sample_cases.KINDS.values():
        assert box(make(), width=80, ascii_only=True, colour=False).isascii()


def test_control_characters_of_a_case_reach_no_terminal() -> None:
    """A hostile case can't steer the terminal or reorder the text."""
    text = box(sample_cases.hostile(), width=80, colour=False)
    assert not set(text) & set("\x1b\x07\u202e")


def test_drawing_the_box_imports_neither_torch_nor_rich() -> None:
    """The box is printed at the end of a user's run, so it brings nothing heavy along."""
    program = "import sys, firstfault.report.box; print([name for name in ('torch', 'rich', 'jinja2', 'numpy', 'pygments') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _joined(text: str) -> str:
    """The text of a box with its rows unwrapped."""
    return re.sub(r"\s+", " ", " ".join(line.strip("|+- ") for line in text.splitlines()))
