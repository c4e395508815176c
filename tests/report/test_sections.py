"""What a report says: facts, inferences and open questions are told apart, and nothing unknown is taken for no."""

from __future__ import annotations

import msgspec
import pytest

import sample_cases
from firstfault.case import findings as found
from firstfault.report import words
from firstfault.report.document import Statements
from firstfault.report.sections import document
from firstfault.report.sections.domain import allows
from firstfault.report.view import CaseView


def statements(view: CaseView) -> dict[str, str]:
    """The sentences of the opening section, by kind."""
    opening = document(view).sections[0]
    return {block.kind: " ".join(block.items) for block in opening.blocks if isinstance(block, Statements)}


def kinds(view: CaseView) -> dict[str, str]:
    return {section.name: section.kind for section in document(view).sections}


def test_what_was_recorded_and_shown_by_trials_is_fact() -> None:
    """Place, position, replay, operator, element with its sample, the samples that suffice, the scan, the fix."""
    facts = statements(sample_cases.index_error())["fact"]
    for said in (
        "Seen at train.py:41 in main, in the forward pass: IndexError: Target 4 is out of bounds.",
        "It came at loader 0 (train_loader), pass 0, batch 34 (counted from 0); 34 steps completed before.",
        "It came back in 4 of 4 fresh processes, from the batch alone.",
        "rebuilt bit for bit",
        "It began in aten.nll_loss_forward at train.py:41 in main.",
        "target[3] is 4; [0, 4) or -100 is allowed. It comes from sample 1182, position 3 in the batch.",
        "Sample 1182 alone suffices for the failure.",
        "confirmed 3 times in new interpreters",
        "11 of 1,200 samples looked at break the rule",
        "The fix was checked: fixed (5 of 6 checks hold).",
    ):
        assert said in facts


def test_the_fault_class_and_what_sets_a_batch_apart_are_inferences() -> None:
    """With their evidence; a trait that hardly separates is not among them."""
    inferred = statements(sample_cases.index_error())["inference"]
    assert "index_out_of_domain" in inferred
    assert "Because: aten.nll_loss_forward: target[3] is 4" in inferred
    assert "maximum of [1]" in inferred
    assert "mean of [0]" not in inferred
    assert kinds(sample_cases.index_error())["contrast"] == "inference"


def test_what_nobody_looked_at_is_an_open_question() -> None:
    """One line when nothing was investigated; each step's own question after that."""
    assert (
        statements(sample_cases.device_assert())["open question"]
        == "Whether it comes back, where it began, and which samples it takes: not tested (firstfault investigate)."
    )
    asked = statements(sample_cases.collate_in_worker())["open question"]
    assert "not tested (firstfault locate)." in asked
    for step in ("contrast", "compare", "scan", "verify"):
        command = words.next_command(step)
        assert (f"not tested ({command})" if command else "not tested.") in asked
    assert "firstfault replay" not in asked


def test_a_step_that_could_not_be_done_leaves_its_question_open_with_the_reason() -> None:
    """The reason is given in place of a result, and the section says what kind of thing it is."""
    view = sample_cases.out_of_memory()
    assert (
        "the trial ran out of memory before the trace could be written" in statements(view)["open question"]
    )
    assert kinds(view)["locate"] == "open question"


def test_a_failure_that_comes_back_now_and_then_is_asked_about() -> None:
    """The rate is a fact, the reason is open."""
    view = sample_cases.out_of_memory()
    assert "2 of 3 fresh processes" in statements(view)["fact"]
    assert "only 2 times in 3" in statements(view)["open question"]


def test_an_operator_named_after_a_late_report_is_no_fact() -> None:
    """Where the device reported late and nothing tells which operator failed, it is an inference."""
    view = sample_cases.device_assert()
    located = found.Locate(
        summary="s", operator="aten.embedding", began=sample_cases.LOSS_LINE, certain=False
    )
    view = msgspec.structs.replace(view, findings={"locate": located})
    assert "aten.embedding" not in statements(view)["fact"]
    assert "It probably began in aten.embedding" in statements(view)["inference"]
    assert kinds(view)["locate"] == "inference"


def test_a_failure_that_did_not_come_back_is_said_as_such() -> None:
    """'Went through' is a fact about trials, not about the failure's being gone."""
    replay = found.Replay(summary="s", outcome="passed", same=0, runs=5)
    view = sample_cases.view(sample_cases.index_error().case, {"replay": replay})
    assert "It did not come back in 5 fresh processes: went through." in statements(view)["fact"]


def test_a_batch_that_differs_is_told_from_one_that_is_not_known() -> None:
    """False, None and 'the kept values were fed' are three different sentences."""
    case = sample_cases.index_error().case
    for given, kind, said in (
        (
            found.Replay(outcome="same", same=1, runs=1, batch_identical=False),
            "fact",
            "differs from the recorded one",
        ),
        (found.Replay(outcome="same", same=1, runs=1), "open question", "its values were not recorded"),
        (
            found.Replay(outcome="same", same=1, runs=1, fed="values"),
            "fact",
            "The kept values of the batch were fed",
        ),
    ):
        assert said in statements(sample_cases.view(case, {"replay": given}))[kind]


def test_before_any_loader_no_batch_is_asked_about() -> None:
    """A failure in the set-up has no batch to compare and no data set to scan."""
    view = sample_cases.view(
        sample_cases.setup().case, {"replay": found.Replay(outcome="same", same=1, runs=1)}
    )
    asked = statements(view)["open question"]
    assert "contrast" not in asked
    assert "scan" not in asked
    assert "It came before any loader was used; no step was completed before." in statements(view)["fact"]


@pytest.mark.parametrize(
    ("rule", "inside", "outside"),
    [
        ("[0, 4) or -100", (0, 3, -100), (4, -1, 100)),
        ("class index in [0, 7)", (0, 6), (7,)),
        ("[0, 1]", (0, 1, 0.5), (1.01, -0.1)),
        ("(0, inf)", (0.1, 1e9), (0, -1)),
        ("[-50, 50)", (-50, 49), (50, -51)),
    ],
)
def test_a_rule_s_text_is_read(rule: str, inside: tuple[float, ...], outside: tuple[float, ...]) -> None:
    """The interval and single values that a contract's text allows."""
    allow = allows(rule)
    assert allow is not None
    assert all(allow(value) for value in inside)
    assert not any(allow(value) for value in outside)


def test_a_rule_without_an_interval_is_not_guessed_at() -> None:
    """No figure is drawn from a rule that can't be read."""
    assert allows("the same device as the weight") is None


def test_a_long_trail_ends_with_the_failing_operator() -> None:
    """What a tracer itself calls after the failure is not shown."""
    view = sample_cases.index_error()
    located = view.findings["locate"]
    assert isinstance(located, found.Locate)
    noise = (
        found.Operation(operator="aten.detach"),
        found.Operation(operator="profiler._record_function_exit"),
    )
    view = msgspec.structs.replace(
        view, findings={"locate": msgspec.structs.replace(located, trail=(*located.trail, *noise))}
    )
    trail = next(section for section in document(view).sections if section.name == "locate").blocks[-1]
    assert trail.rows[-1][0] == "aten.nll_loss_forward"  # type: ignore[union-attr]


def test_a_batch_of_thousands_is_drawn_in_part_and_says_so() -> None:
    """The strip has a limit, and how many samples there are stays told."""
    base = sample_cases.index_error().case
    case = msgspec.structs.replace(
        base, batch=msgspec.structs.replace(base.batch, indices=tuple(range(4096)))
    )
    strip = next(
        section for section in document(sample_cases.view(case)).sections if section.name == "batch"
    ).blocks[0]
    assert len(strip.cells) == 256  # type: ignore[union-attr]
    assert "4,096 samples" in strip.said  # type: ignore[union-attr]
    assert "the first 256 are drawn" in strip.said  # type: ignore[union-attr]
