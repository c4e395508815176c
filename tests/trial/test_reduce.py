"""The reducers: what they end with, how much they ask, and that neither depends on how many trials run side by side."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.trial.reduce import one_by_one, smallest_number, smallest_subset


class Trials:
    """Answers a group as the engine does: ``jobs`` at once, the first interesting one in order; counts what was run."""

    def __init__(self, interesting: Callable[[Sequence[int]], bool], jobs: int = 1) -> None:
        self.interesting = interesting
        self.jobs = jobs
        self.executed: dict[tuple[int, ...], bool] = {}

    def first(self, group: Sequence[list[int]]) -> int | None:
        for number in range(len(group)):
            for candidate in group[number : number + self.jobs]:
                self.executed.setdefault(tuple(candidate), self.interesting(candidate))
            if self.executed[tuple(group[number])]:
                return number
        return None

    @property
    def count(self) -> int:
        return len(self.executed)


def containing(needed: Sequence[int]) -> Callable[[Sequence[int]], bool]:
    wanted = set(needed)
    return lambda candidate: wanted <= set(candidate)


@st.composite
def needs(draw: st.DrawFn) -> tuple[int, list[int]]:
    """A number of elements and those of them that are needed."""
    size = draw(st.integers(1, 300))
    return size, sorted(draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=12)))


@given(needs(), st.sampled_from([1, 2, 16]))
def test_exactly_the_needed_elements_are_kept(case: tuple[int, list[int]], jobs: int) -> None:
    """Where more never hurts, what is kept is what is needed, in order, whatever the number of jobs."""
    size, needed = case
    trials = Trials(containing(needed), jobs)
    assert smallest_subset(range(size), trials.first) == needed


@given(st.integers(0, 12), st.floats(0.05, 0.95), st.randoms(use_true_random=False))
def test_the_result_is_minimal_for_any_question(size: int, rate: float, source: random.Random) -> None:
    """Even where the answers follow no law, the result is interesting and no single element of it can go."""
    known: dict[tuple[int, ...], bool] = {tuple(range(size)): True}

    def interesting(candidate: Sequence[int]) -> bool:
        return known.setdefault(tuple(candidate), source.random() < rate)

    kept = smallest_subset(range(size), one_by_one(interesting))
    assert known[tuple(kept)]
    assert len(kept) <= 1 or not any(interesting(kept[:at] + kept[at + 1 :]) for at in range(len(kept)))


@given(st.integers(1, 12), st.floats(0.05, 0.95), st.integers(0, 2**32))
def test_the_result_does_not_depend_on_the_jobs(size: int, rate: float, seed: int) -> None:
    """One job and sixteen end with the same elements, also where the answers follow no law."""

    def interesting(candidate: Sequence[int]) -> bool:
        return len(candidate) == size or random.Random(f"{seed}{tuple(candidate)}").random() < rate

    results = [smallest_subset(range(size), Trials(interesting, jobs).first) for jobs in (1, 2, 16)]
    assert results[0] == results[1] == results[2]


@given(needs())
def test_nothing_is_asked_twice_and_never_the_empty_subset(case: tuple[int, list[int]]) -> None:
    """A trial costs time: no candidate is asked for twice, none is empty, none is the whole."""
    size, needed = case
    asked: list[tuple[int, ...]] = []

    def interesting(candidate: Sequence[int]) -> bool:
        asked.append(tuple(candidate))
        return set(needed) <= set(candidate)

    smallest_subset(range(size), one_by_one(interesting))
    assert len(asked) == len(set(asked))
    assert all(0 < len(candidate) < size for candidate in asked)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("culprit", [0, 1, 1086, 2047, 2048, 3071, 4094, 4095])
def test_one_culprit_among_4096_takes_at_most_30_trials(culprit: int, jobs: int) -> None:
    """A single bad sample is found in 13 questions; with two side by side at most 30 trials are executed."""
    trials = Trials(containing([culprit]), jobs)
    assert smallest_subset(range(4096), trials.first) == [culprit]
    assert trials.count <= (14 if jobs == 1 else 30)


def test_a_pair_that_only_fails_together_is_found() -> None:
    """Two samples that need each other are both kept, in at most twice the questions for one and a few."""
    trials = Trials(containing([17, 3000]))
    assert smallest_subset(range(4096), trials.first) == [17, 3000]
    assert trials.count <= 30


@pytest.mark.parametrize("needed", [0, 20, 31])
@pytest.mark.parametrize("multiple", [2, 4, 8])
def test_sizes_that_must_be_a_multiple_are_kept(needed: int, multiple: int) -> None:
    """One bad sample in batches that must divide evenly: as few others as the division asks for are kept."""
    trials = Trials(lambda candidate: needed in candidate and len(candidate) % multiple == 0)
    kept = smallest_subset(range(32), trials.first)
    assert needed in kept
    assert len(kept) == multiple


def test_definitions_are_kept_for_their_uses() -> None:
    """Lines of a program of which each uses the two before it: taking a definition alone never works."""

    def interesting(lines: Sequence[int]) -> bool:
        valid = all(line < 2 or {line - 1, line - 2} <= set(lines) for line in lines)
        return valid and 20 in lines

    trials = Trials(interesting)
    assert smallest_subset(range(100), trials.first) == list(range(21))


# Median trials of picire 21.8 (complements from the back, the better of its settings) for the same needed elements,
# measured by bench/reducers.py.
PICIRE = {
    (50, 1): 8,
    (50, 3): 35,
    (50, 10): 84,
    (200, 3): 51,
    (200, 10): 136,
    (1000, 1): 15,
    (1000, 3): 69,
    (1000, 10): 195,
}


@pytest.mark.parametrize(("size", "needed"), PICIRE)
def test_fewer_trials_than_ddmin(size: int, needed: int) -> None:
    """With needed elements anywhere, the median number of trials is below that of classic ddmin."""
    source = random.Random(1)
    counts = []
    for _ in range(15):
        trials = Trials(containing(source.sample(range(size), needed)))
        smallest_subset(range(size), trials.first)
        counts.append(trials.count)
    assert median(counts) < PICIRE[size, needed]


@given(st.integers(2, 200), st.integers(0, 6))
def test_a_spent_budget_leaves_the_best_so_far(size: int, groups: int) -> None:
    """When the budget ends the search, what is returned was found interesting, and no further group is asked."""
    trials = Trials(containing([size - 1]))
    asked = 0

    def first(group: Sequence[list[int]]) -> int | None:
        nonlocal asked
        asked += 1
        return trials.first(group)

    kept = smallest_subset(range(size), first, left=lambda: asked < groups)
    assert size - 1 in kept
    assert asked <= groups
    assert len(kept) == size or trials.executed[tuple(kept)]


@given(st.integers(-50, 50), st.integers(0, 1000), st.data())
def test_the_smallest_number_is_found(low: int, extent: int, data: st.DataObject) -> None:
    """Where interesting numbers reach up to the highest, the smallest is found, asking within the range only."""
    smallest = data.draw(st.integers(low, low + extent))
    asked: list[int] = []

    def interesting(number: int) -> bool:
        asked.append(number)
        return number >= smallest

    assert smallest_number(low, low + extent, interesting) == smallest
    assert all(low <= number < low + extent for number in asked)
    assert len(asked) == len(set(asked)) <= extent.bit_length() + 3


def test_a_number_that_cannot_be_lowered_costs_three_questions() -> None:
    """Most extents of a failing operator are stuck; they must not cost a bisection each."""
    asked: list[int] = []
    assert smallest_number(1, 1024, lambda number: bool(asked.append(number))) == 1024
    assert len(asked) == 3
