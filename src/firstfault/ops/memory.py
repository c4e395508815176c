"""Where an element lies: from a tensor and an index to an address, and back.

An address is absolute, so views, NumPy arrays over the same memory and tensors made from them all agree on it. It stays
one element's own as long as somebody keeps the memory alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

Index = tuple[int, ...]


class Address(NamedTuple):
    """An element's byte: in which device's memory, and where."""

    device: str
    byte: int


def has_address(tensor: torch.Tensor) -> bool:
    """Whether the tensor's elements lie in memory one by one."""
    return (
        tensor.layout == torch.strided
        and not tensor.is_nested
        and not tensor.is_quantized
        and tensor.device.type != "meta"
    )


def address_of(tensor: torch.Tensor, index: Index) -> Address | None:
    """The address of ``tensor[index]``; None for sparse, nested, quantized and meta tensors."""
    if not has_address(tensor):
        return None
    offset = sum(at * stride for at, stride in zip(index, tensor.stride(), strict=True))
    return Address(str(tensor.device), tensor.data_ptr() + offset * tensor.element_size())


def span_of(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of a tensor's elements and the first byte after them."""
    if tensor.numel() == 0:
        return tensor.data_ptr(), tensor.data_ptr()
    reach = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (reach + 1) * tensor.element_size()


def index_at(tensor: torch.Tensor, address: Address) -> Index | None:
    """The index of the element at an address, or None when the tensor doesn't hold it.

    Where several indices share the element (an expanded tensor), the first one.
    """
    if not has_address(tensor) or tensor.numel() == 0 or str(tensor.device) != address.device:
        return None
    offset, rest = divmod(address.byte - tensor.data_ptr(), tensor.element_size())
    if rest or offset < 0:
        return None
    return _index_of_offset(offset, tensor.shape, tensor.stride())


def _index_of_offset(offset: int, shape: Sequence[int], stride: Sequence[int]) -> Index | None:
    """The first index whose strides add up to ``offset``; None when there is none.

    Dimensions are taken from the largest stride down. Where they overlap (as_strided, unfold), the greedy choice can
    miss, so smaller ones are tried too.
    """
    order = sorted((d for d in range(len(shape)) if stride[d] > 0 and shape[d] > 1), key=lambda d: -stride[d])
    reach = [0] * (len(order) + 1)  # what the dimensions from here on can add up to
    for number in range(len(order) - 1, -1, -1):
        reach[number] = reach[number + 1] + (shape[order[number]] - 1) * stride[order[number]]
    index = [0] * len(shape)

    def fits(number: int, rest: int) -> bool:
        if number == len(order):
            return rest == 0
        dimension = order[number]
        most = min(rest // stride[dimension], shape[dimension] - 1)
        for at in range(most, -1, -1):
            left = rest - at * stride[dimension]
            if left > reach[number + 1]:
                return False
            index[dimension] = at
            if fits(number + 1, left):
                return True
        return False

    return tuple(index) if fits(0, offset) else None


def broadcast(index: Index, shape: Sequence[int], source: Sequence[int]) -> Index:
    """The element of a tensor of shape ``source`` that stands at ``index`` once it is broadcast to ``shape``."""
    kept = index[len(shape) - len(source) :]
    return tuple(0 if extent == 1 else at for at, extent in zip(kept, source, strict=True))


def broadcasts(source: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a tensor of shape ``source`` broadcasts to ``shape``."""
    return len(source) <= len(shape) and all(
        extent in (1, wanted) for extent, wanted in zip(reversed(source), reversed(shape), strict=False)
    )
