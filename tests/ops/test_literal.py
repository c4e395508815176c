"""A value written as source makes the same value again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.ops.literal import NoLiteral, literal

DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
]


def made_again(value: Any) -> Any:
    return eval(literal(value), {"torch": torch, "numpy": np})


def assert_equal_tensors(one: torch.Tensor, other: torch.Tensor) -> None:
    assert (one.dtype, one.shape, one.requires_grad) == (other.dtype, other.shape, other.requires_grad)
    assert one.is_contiguous() == other.is_contiguous()
    torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


@settings(max_examples=150, deadline=None)
@given(
    shape=st.lists(st.integers(0, 4), max_size=3),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**16),
    order=st.randoms(use_true_random=False),
    grad=st.booleans(),
)
def test_any_tensor_comes_back(
    shape: list[int], dtype: torch.dtype, seed: int, order: Any, grad: bool
) -> None:
    """Elements, dtype, shape, memory order and requires_grad are what they were."""
    generator = torch.Generator().manual_seed(seed)
    tensor = (torch.randn(shape, generator=generator) * 3).to(dtype)
    dimensions = list(range(tensor.ndim))
    order.shuffle(dimensions)
    tensor = tensor.permute(dimensions)
    tensor.requires_grad_(grad and tensor.is_floating_point())
    assert_equal_tensors(tensor, made_again(tensor))


def test_overlaps_and_gaps_come_back() -> None:
    """An expanded tensor stays expanded, a strided slice keeps its strides."""
    expanded = torch.tensor([[1.0], [2.0]]).expand(2, 3)
    assert made_again(expanded).stride() == expanded.stride()
    sliced = torch.arange(12.0).reshape(3, 4)[:, ::2]
    again = made_again(sliced)
    assert (again.stride(), again.tolist()) == (sliced.stride(), sliced.tolist())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(2, 3), "torch.zeros(2, 3)"),
        (torch.ones(4, dtype=torch.int64), "torch.ones(4, dtype=torch.int64)"),
        (torch.tensor([1, 5]), "torch.tensor([1, 5])"),
        (torch.tensor(0.1), "torch.tensor(0.1)"),
        (float("nan"), 'float("nan")'),
        ((1,), "(1,)"),
        (slice(None, 3), "slice(None, 3, None)"),
    ],
)
def test_the_text_is_short(value: Any, text: str) -> None:
    """What a person would write."""
    assert literal(value) == text


def test_what_cannot_be_written_is_refused() -> None:
    """Objects of the user's own and large random tensors have no literal."""
    for value in (object(), torch.randn(10_000), {"a": object()}):
        with pytest.raises(NoLiteral):
            literal(value)
