"""Rows of embedding tables, and bags of them.

Sources: aten/src/ATen/native/cuda/{Embedding,EmbeddingBag,Indexing}.cu, ATen/native/{Embedding,EmbeddingBag}.cpp
(assertions: torch 2.14.1; CPU: torch 2.13).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from firstfault.ops.contracts.contract import (
    Arguments,
    Backend,
    Suspect,
    contract,
    fits_32_bits,
    index_domain,
    is_integer,
)

_FEW = 16  # up to so many indices the rows are taken by index_select's own kernel, which sees 32 bits of an index
_MAX = 2  # mode of embedding_bag


@contract("row of the table", "embedding")
def row(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """``0 <= index < weight.size(0)``; negative indices are refused and padding_idx is an index like any other.

    Indexing.cu ``srcIndex < srcSelectDimSize``, which sees int64 values cut to 32 bits; from 17 indices on gather's
    assertions (ScatterGatherKernel.cu, IndexKernelUtils.cu). CPU raises IndexError.
    """
    weight, indices = arguments["weight"], arguments["indices"]
    if weight.ndim == 2 and weight.size(1) == 0:
        return ()
    few = backend == "cuda" and indices.numel() <= _FEW and fits_32_bits(weight)
    return index_domain("indices", indices, weight.size(0), bits=32 if few else 64)


@contract("row of the table", "embedding_renorm_")
def renormalised_row(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """``-rows <= index < rows``: max_norm counts negative indices from the end (the look-up after it refuses them).

    Embedding.cu 'embedding_renorm_: index out of bounds'. CPU raises IndexError.
    """
    return index_domain("indices", arguments["indices"], arguments["self"].size(0), wraps=True)


_BAGS = ("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")


@contract("row of the table", *_BAGS)
def row_of_a_bag(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """``0 <= index < weight.size(0)`` for every index, padding_idx too.

    EmbeddingBag.cu 'Invalid input index in EmbeddingBag'. CPU raises RuntimeError.
    """
    return index_domain("indices", arguments["indices"], arguments["weight"].size(0))


@contract("offsets of bags", *_BAGS)
def offsets(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """Offsets start at 0, don't decrease and don't exceed the number of indices.

    EmbeddingBag.cu ``end >= begin``. CUDA takes the first offset for 0 whatever it is, and ends the last bag at the end
    of the indices. CPU raises RuntimeError, but accepts offsets that decrease in mode 'max'.
    """
    bags: Any = arguments["offsets"]
    if not is_integer(bags) or bags.ndim != 1 or bags.numel() == 0:
        return
    end = arguments["indices"].numel()
    wide = bags.long()
    last = bool(arguments.get("include_last_offset"))
    if backend == "cuda":
        begins = wide[: wide.numel() - last].clone()
        begins[:1] = 0
        ends = torch.cat([begins[1:], begins.new_full((1,), end)])
        bad = torch.zeros_like(wide, dtype=torch.bool)
        bad[: begins.numel()] = ends < begins
        yield Suspect("offsets", f"not decreasing, up to {end}", bad, bags)
        return
    yield Suspect("offsets", "0 at first", _at(wide, 0) & (wide != 0), bags)
    yield Suspect("offsets", f"up to {end} at last", _at(wide, -1) & (wide > end), bags)
    if arguments.get("mode") != _MAX:
        decreasing = torch.zeros_like(wide, dtype=torch.bool)
        decreasing[1:] = wide[1:] < wide[:-1]
        yield Suspect("offsets", "not decreasing", decreasing, bags)


def _at(tensor: torch.Tensor, position: int) -> torch.Tensor:
    mask = torch.zeros_like(tensor, dtype=torch.bool)
    mask[position] = True
    return mask


CONTRACTS = (row, renormalised_row, row_of_a_bag, offsets)
