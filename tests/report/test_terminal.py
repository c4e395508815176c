"""Cases and findings on a terminal."""

from __future__ import annotations

import io

import pytest

import sample_cases
from firstfault.case import findings as found
from firstfault.report import cells, terminal
from firstfault.report.view import CaseView


def shown(view: CaseView, width: int = 80, **options: object) -> str:
    out = io.StringIO()
    terminal.show(view, terminal.console(file=out, width=width, **options))
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_line_is_wider_than_the_terminal_or_ends_in_blanks(view: CaseView, width: int) -> None:
    """Readable at 80 columns and in a log file."""
    lines = shown(view, width).splitlines()
    assert all(cells.width(line) <= min(width, terminal.WIDEST) for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_without_a_terminal_there_are_no_escapes(view: CaseView) -> None:
    """A log gets plain text, and a case can't smuggle controls in."""
    assert not set(shown(view)) & set("\x1b\x07\u202e\r")


def test_a_case_cannot_use_the_library_s_markup() -> None:
    """Square brackets in a message are shown, not obeyed."""
    view = sample_cases.view(
        sample_cases.case(
            sample_cases.Failure(
                kind="raised",
                phase="forward",
                exception=sample_cases.ExceptionInfo(
                    type="ValueError", message="[bold red]x[/] :boom: [link=http://evil]y[/link]"
                ),
            )
        )
    )
    assert "[bold red]x[/] :boom: [link=http://evil]y[/link]" in shown(view)


def test_every_finding_has_its_section_with_its_result() -> None:
    """All eight steps are shown under their titles, with what they found."""
    text = " ".join(shown(sample_cases.index_error()).split())
    for said in (
        "Getting it back",
        "Where it began",
        "What kind of fault",
        "What sets the batch apart",
        "The smallest case",
        "One change at a time",
        "The data set",
        "The fix",
    ):
        assert said in text
    for said in (
        "aten.nll_loss_forward",
        "target[3]",
        "sample 1182",
        "maximum of [1]",
        "torch.nn.functional.cross_entropy(input, target)",
        "labels clamped",
        "11 of 300",
        "holds",
    ):
        assert said in text


def test_fact_inference_and_open_question_are_named() -> None:
    """The three kinds are told apart in words, so that they are in a log too."""
    text = shown(sample_cases.out_of_memory())
    assert "[fact]" in text
    assert "[inference]" in text
    assert "[open question]" in text
    assert "the trial ran out of memory before the trace could be written" in text


def test_step_line_is_one_line_with_result_time_and_trials() -> None:
    """investigate tells of each step in a line."""
    line = terminal.step_line(
        "replay", found.Replay(summary="the same failure\ncame back", seconds=83.4, trials=4)
    )
    assert line == "replay     the same failure came back (1 min 23 s, 4 trials)"
    assert terminal.step_line("locate", found.Locate(not_done="no trial fits")) == "locate     no trial fits"


def test_one_finding_alone(view: CaseView) -> None:
    """A step's own output shows its result, or why there is none."""
    for name, finding in view.findings.items():
        out = io.StringIO()
        terminal.show_finding(name, finding, terminal.console(file=out, width=200))
        assert terminal.clean(finding.not_done or finding.summary)[:20] in out.getvalue()


def test_the_list_has_a_line_a_case_and_says_when_there_is_none() -> None:
    """Ids, faults and messages; an unreadable case among them."""
    rows = [
        {
            "id": "20261201-141931-a2a9",
            "failed": "IndexError: \x1b[31mTarget",
            "fault": "index_out_of_domain",
            "created": 1.0,
            "found": ["replay"],
        },
        {
            "id": "20261201-141932-ffff",
            "failed": "can't be read: damaged",
            "fault": None,
            "created": None,
            "found": [],
        },
    ]
    out = io.StringIO()
    terminal.show_list(rows, terminal.console(file=out, width=100))
    assert "20261201-141931-a2a9" in out.getvalue()
    assert "unreadable" in out.getvalue()
    assert "\x1b" not in out.getvalue()
    out = io.StringIO()
    terminal.show_list([], terminal.console(file=out, width=100))
    assert "firstfault run SCRIPT" in out.getvalue()
