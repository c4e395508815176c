"""Indices of gather, scatter, index and their relatives.

Sources: aten/src/ATen/native/cuda/{IndexKernel,Indexing,ScatterGatherKernel}.cu, ATen/native/TensorAdvancedIndexing.cpp
(torch 2.13 and 2.14.1). CPU raises IndexError or RuntimeError for the same inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from firstfault.ops.contracts.contract import Broken, Contract, index_domain


def _size(tensor: torch.Tensor, dim: int) -> int:
    """A dimension's extent; a tensor without dimensions counts as one element along dimension 0."""
    return tensor.size(dim) if tensor.ndim else 1


def along_dimension(arguments: Mapping[str, Any]) -> list[Broken]:
    """``0 <= index < self.size(dim)``; negative indices are refused. An empty index is always right."""
    size = _size(arguments["self"], arguments["dim"])
    return index_domain("index within the dimension", "index", arguments["index"], size, negative=False)


def wrapping_along_dimension(arguments: Mapping[str, Any]) -> list[Broken]:
    """``-size <= index < size``: index_fill counts negative indices from the end (TensorAdvancedIndexing.cpp)."""
    size = _size(arguments["self"], arguments["dim"])
    return index_domain("index within the dimension", "index", arguments["index"], size, negative=True)


def advanced(arguments: Mapping[str, Any]) -> list[Broken]:
    """Each integer index of ``x[i, j, …]`` lies in ``[-size, size)`` of its dimension.

    A boolean index spans as many dimensions as it has; its shape is the operator's own affair. Nothing is checked when
    the result has no elements: then no index is looked at.
    """
    tensor = arguments["self"]
    found: list[Broken] = []
    dimension = 0
    for part, index in enumerate(arguments["indices"]):
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            dimension += index.ndim
            continue
        if index is not None:
            size = tensor.size(dimension)
            found += index_domain("index within the dimension", "indices", index, size, negative=True, part=part)
        dimension += 1
    return found


def flat(arguments: Mapping[str, Any]) -> list[Broken]:
    """``take`` and ``put_`` index the flattened tensor: ``-numel <= index < numel``."""
    return index_domain("index within the tensor", "index", arguments["index"], arguments["self"].numel(), negative=True)


CONTRACTS = (
    Contract(
        name="index within the dimension",
        operators=(
            "aten.gather",
            "aten.scatter",
            "aten.scatter_",
            "aten.scatter_add",
            "aten.scatter_add_",
            "aten.scatter_reduce",
            "aten.scatter_reduce_",
            "aten.index_select",
            "aten.index_add",
            "aten.index_add_",
            "aten.index_copy",
            "aten.index_copy_",
            "aten.index_reduce",
            "aten.index_reduce_",
        ),
        rule=along_dimension,
    ),
    Contract(name="index within the dimension", operators=("aten.index_fill", "aten.index_fill_"), rule=wrapping_along_dimension),
    Contract(
        name="index within the dimension",
        operators=("aten.index", "aten.index_put", "aten.index_put_", "aten._index_put_impl_", "aten._unsafe_index"),
        rule=advanced,
    ),
    Contract(name="index within the tensor", operators=("aten.take", "aten.put", "aten.put_"), rule=flat),
)
