"""The request for help: the form that is asked for, short, nothing private, honest about whose fault it is."""

from __future__ import annotations

import re

import msgspec
import pytest

import sample_cases
from firstfault.case import findings as found
from firstfault.case.known_secrets import Known
from firstfault.case.redaction import STAYS
from firstfault.case.schema import ExceptionInfo, Failure
from firstfault.report.request import _collect_env, request, title
from firstfault.report.view import CaseView

VERSIONS = """\
PyTorch version: 2.13.0+cpu
Is debug build: False
OS: Debian GNU/Linux 12
Vulnerability Spectre v2:  Mitigation; everything
Flags: fpu vme de
[pip3] nvidia-cudnn-cu12==9.1.0.70
[pip3] torch==2.13.0+cpu
"""
NOBODY = Known()


def framework_bug() -> CaseView:
    """A failure of torch's own: a layout that it does not take, shown by one change."""
    failing = sample_cases.case(
        Failure(
            kind="raised",
            phase="backward",
            exception=ExceptionInfo(
                type="RuntimeError", message="derivative for aten::_scaled_dot_product is not implemented"
            ),
            seen=sample_cases.LOSS_LINE,
            frames=sample_cases.LOSS_FRAMES,
        )
    )
    return sample_cases.view(
        failing,
        {
            "explain": found.Explain(summary="kernel_unavailable: no kernel for these arguments", fault="kernel_unavailable", family="environment", first_check="Try another dtype."),
            "compare": found.Compare(summary="s", rows=(found.Row(change="contiguous inputs", outcome="passed"), found.Row(change="CPU", outcome="same"))),
            "shrink": found.Shrink(summary="s", repro="repro.py", confirmed=3, conditions=(found.Condition(what="strides of q", needed=True, evidence="contiguous: goes through"),)),
        },
        sample_cases.REPRO,
    )  # fmt: skip


@pytest.mark.parametrize("venue", ["pytorch", "forum", "github"])
def test_it_is_complete_and_short(view: CaseView, venue: str) -> None:
    """What fails, the program or that there is none, what was seen, versions; at most three screens and a half."""
    text = request(view, venue, known=NOBODY, versions=VERSIONS)  # type: ignore[arg-type]
    assert text.startswith("Title: `")
    assert "A run failed" in text
    assert ("```python" in text) == (view.repro is not None)
    assert "Traceback (most recent call last):" in text
    assert len(text.splitlines()) <= 140
    assert text.count("```") % 2 == 0 or "````" in text


def test_pytorch_gets_the_headings_of_its_form_in_their_order() -> None:
    """'Describe the bug' with program, observed and expected; then 'Versions' by collect_env, without its noise."""
    text = request(framework_bug(), "pytorch", known=NOBODY, versions=VERSIONS)
    parts = [
        "### 🐛 Describe the bug",
        "```python",
        "Observed:",
        "Traceback",
        "Expected:",
        "### Versions",
        "PyTorch version: 2.13.0+cpu",
        "nvidia-cudnn-cu12==9.1.0.70",
        "<!--",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "Vulnerability" not in text
    assert "Flags:" not in text
    assert "Expected: what it does with contiguous inputs, where it goes through." in text
    assert "| CPU | same failure |" in text
    assert "Not for the tracker" not in text


def test_the_user_s_own_data_is_not_for_the_tracker() -> None:
    """When the fault is in the data, the draft says so first, and names the sample to look at."""
    text = request(sample_cases.index_error(), "pytorch", known=NOBODY, versions=VERSIONS)
    assert text.index("**Not for the tracker.**") < text.index("### 🐛")
    assert "Look at sample 1182 first." in text
    assert "Not for the tracker" not in request(sample_cases.index_error(), "forum", known=NOBODY)


def test_the_forum_gets_the_versions_in_short() -> None:
    """A few lines instead of collect_env."""
    text = request(sample_cases.index_error(), "forum", known=NOBODY)
    assert "torch 2.13.0+cpu (CPU)" in text
    assert "### Versions" not in text


def test_what_the_device_said_comes_before_the_traceback() -> None:
    """The first relevant message is the assertion, not the error that was raised later."""
    text = request(sample_cases.device_assert(), "github", known=NOBODY, versions=VERSIONS)
    assert text.index("srcIndex < srcSelectDimSize") < text.index("Traceback (most recent call last)")
    assert "is not where it began" in text
    assert "another installation" in text


def test_a_long_traceback_is_cut_in_its_middle() -> None:
    """The first and the last lines stay, and how many are left out is said."""
    base = sample_cases.index_error()
    frames = tuple(sample_cases.frame(number, f"f{number}", "x()") for number in range(100))
    view = sample_cases.view(
        msgspec.structs.replace(base.case, failure=msgspec.structs.replace(base.case.failure, frames=frames))
    )
    text = request(view, "github", known=NOBODY, versions=VERSIONS)
    assert "in f0" in text
    assert "in f99" in text
    assert re.search(r"… \d+ lines left out", text)


def test_the_title_names_operator_message_back_end_and_version(view: CaseView) -> None:
    """It is short enough for a tracker's list."""
    assert len(title(view)) <= 110 or view.case.environment.torch == sample_cases.HOSTILE
    assert (
        title(sample_cases.index_error())
        == "aten.nll_loss_forward: IndexError: Target 4 is out of bounds. (CPU, torch 2.13.0+cpu)"
    )


def test_the_review_list_says_what_was_replaced_and_what_stays() -> None:
    """Counts by rule without values, and every kind of thing that is left in."""
    text = request(
        sample_cases.device_assert(),
        "pytorch",
        known=Known(folders=(("~", "/home/jane.doe"),), users=("jane.doe",)),
        versions=VERSIONS,
    )
    comment = text[text.rindex("<!--") :]
    assert "8 samples" in comment
    assert "2 arguments" in comment
    assert all(each in comment for each in STAYS)
    assert "jane" not in text
    assert "doc-00000" not in text
    assert comment.rstrip().endswith("-->")


def test_show_private_is_marked_as_for_oneself() -> None:
    """Nothing is replaced, and the text says not to post it."""
    text = request(sample_cases.device_assert(), "github", show_private=True, versions=VERSIONS)
    assert "/home/jane.doe/projects/tickets/train.py" in text
    assert "Don't post this" in text


def test_hostile_text_cannot_end_the_comment_or_a_block() -> None:
    """The review list stays a comment, code stays in its fence."""
    text = request(
        sample_cases.hostile(), "github", known=NOBODY, versions="PyTorch version: 1\n```\n<b>x</b>\n-->"
    )
    assert text.count("-->") == 2
    assert text.rstrip().endswith("-->")
    assert not set(text) & set("\x1b\x07\u202e")


@pytest.mark.slow
def test_collect_env_is_run_in_a_process_of_its_own() -> None:
    """torch's own script gives its block."""
    collected = _collect_env()
    assert collected is not None
    assert "PyTorch version" in collected
