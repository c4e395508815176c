"""What a step may spend."""

from __future__ import annotations

import pytest

from firstfault.errors import UsageError
from firstfault.trial.budget import Budget, parse_budget


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60s", (60.0, None)),
        ("1.5m", (90.0, None)),
        ("2h", (7200.0, None)),
        ("200", (None, 200)),
        ("60s,200", (60.0, 200)),
        ("200, 60s", (60.0, 200)),
    ],
)
def test_a_budget_is_a_time_a_number_of_trials_or_both(
    text: str, expected: tuple[float | None, int | None]
) -> None:
    """Seconds need a unit, trials have none."""
    assert parse_budget(text) == expected


@pytest.mark.parametrize("text", ["", "fast", "-5", "60 parsecs", "60s,60s", "1,2", "0", "0s", "1e9s", "²"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    """The message quotes the text and tells what to do instead."""
    with pytest.raises(UsageError, match=f"--budget {text!r}.*(write 60s|leave it out)"):
        parse_budget(text)


def test_trials_count_from_the_start_of_the_budget() -> None:
    """Trials executed before the budget was made don't count; it ends when its number has been executed."""
    executed = 10
    budget = Budget(trials=2, count=lambda: executed)
    assert budget.left()
    executed = 11
    assert budget.left()
    executed = 12
    assert not budget.left()
    assert budget.spent[1] == 2


def test_seconds_run_out() -> None:
    """No seconds left means no further trial; without a limit there are always some."""
    assert not Budget(seconds=0.0).left()
    assert Budget(seconds=0.0).seconds_left() == 0.0
    assert Budget(seconds=3600.0).left()
    assert Budget().left()
    assert Budget().seconds_left() is None
