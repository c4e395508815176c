"""Random states: taken at a border, put back later, the draws are the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.record import rng


def draws() -> list[Any]:
    return [
        random.random(),
        random.gauss(0, 1),
        float(np.random.rand()),
        float(np.random.randn()),
        torch.rand(2).tolist(),
    ]


@settings(max_examples=30, deadline=None)
@given(
    before=st.lists(
        st.sampled_from(
            [
                random.random,
                lambda: random.gauss(0, 1),
                np.random.rand,
                np.random.randn,
                lambda: torch.rand(1),
            ]
        ),
        max_size=6,
    )
)
def test_states_come_back_from_bytes(before: list[Callable[[], Any]]) -> None:
    """Whatever was drawn before, also half of a pair of Gaussians."""
    for draw in before:
        draw()
    states = rng.decode(rng.encode(rng.take()))
    first = draws()
    rng.put_back(states)
    assert draws() == first


def test_a_sampler_sees_every_change() -> None:
    """NumPy's state is read only when its memory changed, or while it holds the second half of a pair."""
    sampler = rng.Sampler()
    for draw in (np.random.randn, np.random.randn, np.random.rand, np.random.randn, np.random.randn):
        sampler.take()
        states = sampler.states()
        assert states is not None
        expected = float(np.random.randn())
        rng.put_back(states)
        assert float(np.random.randn()) == expected
        draw()


class Data:
    """A data set with generators of its own, in places where people keep them."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(3)
        self.legacy = np.random.RandomState(4)
        self.draw = random.Random(5)
        self.parts = [{"torch": torch.Generator().manual_seed(6)}]


@pytest.mark.parametrize("kind", ["generator", "legacy", "draw", "torch"])
def test_generators_of_the_data_set_are_found_and_put_back(kind: str) -> None:
    """They are named by their path, and draw the same again."""
    data = Data()
    draw = {
        "generator": lambda: data.generator.random(),
        "legacy": lambda: data.legacy.randn(),
        "draw": lambda: data.draw.random(),
        "torch": lambda: torch.rand(1, generator=data.parts[0]["torch"]).item(),
    }[kind]
    draw()
    found = rng.generators_of(data)
    assert len(found) == 4
    states = rng.decode(rng.encode(rng.take(found)))
    first = draw()
    rng.put_back(states, rng.generators_of(data))
    assert draw() == first
