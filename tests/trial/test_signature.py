"""What makes two failures the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.case.schema import ExceptionInfo, Failure, Frame
from firstfault.trial.signature import Strength, mask, nonfinite_kind, same, signature, unwrap_worker


def failure(
    message: str, type_: str = "RuntimeError", function: str = "main", kind: str = "raised"
) -> Failure:
    return Failure(
        kind=kind,  # type: ignore[arg-type]
        phase="forward",
        exception=ExceptionInfo(type=type_, message=message),
        seen=Frame(file="/home/somebody/train.py", line=3, function=function),
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Target 4 is out of bounds.", "Target 255 is out of bounds."),
        ("shapes cannot be multiplied (3x4 and 5x6)", "shapes cannot be multiplied (1x1 and 2x1)"),
        ("Expected hidden[0] size (2, 13, 24), got [2, 20, 24]", "Expected hidden[0] size (1, 1), got [2]"),
        ("No such file: '/a/b/x.png'", "No such file: '/c/x.png'"),
    ],
)
def test_numbers_shapes_and_folders_do_not_count(one: str, other: str) -> None:
    """A reducer changes them without slipping to another fault."""
    assert mask(one) == mask(other)
    assert same(signature(failure(one)), signature(failure(other)), "frame")


def test_nan_and_both_infinities_are_three_things() -> None:
    """A guard that reports NaN is not the one that reports an infinity."""
    kinds = [nonfinite_kind(f"loss is {text}") for text in ("nan", "inf", "-inf", "info", "nancy")]
    assert kinds == ["nan", "+inf", "-inf", "", ""]
    assert not same(signature(failure("loss is nan")), signature(failure("loss is inf")), "type")


@pytest.mark.parametrize(
    ("strength", "expected"),
    [("frame", (False, False, False)), ("message", (True, False, False)), ("type", (True, True, False))],
)
def test_strengths(strength: Strength, expected: tuple[bool, ...]) -> None:
    """Each strength compares less than the one before: frame, message, type."""
    base = signature(failure("Target 4 is out of bounds."))
    others = (
        failure("Target 5 is out of bounds.", function="validate"),
        failure("something else"),
        failure("Target 4 is out of bounds.", type_="IndexError"),
    )
    assert tuple(same(base, signature(each), strength) for each in others) == expected


def test_a_workers_wrapper_is_taken_off() -> None:
    """The same exception raised in a worker and in the main process compares equal."""
    wrapped = (
        "Caught ValueError in DataLoader worker process 1.\nOriginal Traceback (most recent call last):\n"
        '  File "/x/worker.py", line 3, in f\n    data = f()\n           ^^^\n  File "train.py", line 9, in __getitem__\n'
        "    raise ValueError(text)\nValueError: bad: sample\nsecond line\n"
    )
    assert unwrap_worker("ValueError", wrapped) == ("ValueError", "bad: sample\nsecond line")
    assert same(
        signature(failure(wrapped, "ValueError")),
        signature(failure("bad: sample\nsecond line", "ValueError")),
    )


@given(st.text())
def test_masking_is_stable(text: str) -> None:
    """Masking twice changes nothing more, and never raises."""
    once = mask(text)
    assert mask(once) == once
