"""Whether gradients were off, read from the frames that a failure left."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from firstfault.record.frames import entries
from firstfault.record.gradients import gradients_off


def fails() -> None:
    raise RuntimeError("here")


def under_block() -> None:
    with torch.no_grad():
        fails()


@torch.no_grad()
def under_decorator() -> None:
    fails()


def under_inference() -> None:
    with torch.inference_mode():
        fails()


def turned_on_again() -> None:
    with torch.no_grad(), torch.enable_grad():
        fails()


def switched() -> None:
    with torch.set_grad_enabled(False):
        fails()


def beside_a_block() -> None:
    with torch.no_grad():
        pass
    fails()


@pytest.mark.parametrize(
    ("function", "off"),
    [
        (under_block, True),
        (under_decorator, True),
        (under_inference, True),
        (switched, True),
        (beside_a_block, False),
        (fails, False),
    ],
)
def test_gradients_are_off_inside_of_a_block(function: Any, off: bool) -> None:
    """Blocks, decorators and switches count where the failing frame stands in them."""
    try:
        function()
    except RuntimeError:
        assert gradients_off(entries(sys.exc_info()[2])) is off
