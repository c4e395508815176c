"""Indices of gather, scatter, index and their relatives.

Sources: aten/src/ATen/native/cuda/{IndexKernel,IndexKernelUtils,Indexing,ScatterGatherKernel,TmaScatterAddKernel}.cu,
ATen/native/TensorAdvancedIndexing.cpp and ATen/native/cpu/{IndexKernel,ScatterGatherKernel}.cpp (assertions: torch 2.14.1;
CPU: torch 2.13).
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
    size_along,
    whole,
)

_FEW = (
    16  # up to so many indices index_select has a kernel of its own (index_select_out_cuda_impl, Indexing.cu)
)


def _wraps_on_cuda(backend: Backend) -> bool:
    """Under deterministic algorithms some CUDA operators become index_put_, which counts negative indices from the end."""
    return backend == "cuda" and torch.are_deterministic_algorithms_enabled()


@contract(
    "index within the dimension",
    *("gather", "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_"),
)
def along_dimension(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """``0 <= index < self.size(dim)``; negative indices are refused.

    ScatterGatherKernel.cu 'index out of bounds', 'scatter gather kernel index out of bounds'; IndexKernelUtils.cu
    'vectorized gather kernel …', 'vectorized scatter add kernel …'; TmaScatterAddKernel.cu. CPU raises RuntimeError.
    """
    return index_domain("index", arguments["index"], size_along(arguments["self"], arguments["dim"]))


@contract("index within the tensor", "take_along_dim")
def along_flat(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """Without ``dim``, ``take_along_dim`` gathers from the flattened tensor: ``0 <= index < numel``.

    With ``dim`` the index is taken modulo the size on every back end, so any is accepted. ScatterGatherKernel.cu. CPU
    raises RuntimeError.
    """
    if arguments.get("dim") is not None:
        return ()
    return index_domain("indices", arguments["indices"], arguments["self"].numel())


@contract("index within the dimension", "index_select")
def selected(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """``0 <= index < self.size(dim)``, unless the result has no elements.

    Indexing.cu ``srcIndex < srcSelectDimSize``, which sees int64 values cut to 32 bits; more than 16 indices go to
    gather, which sees them whole. A sparse tensor counts negative indices from the end (Indexing.cu
    'index_select(): index out of bounds'), and so does compiled code. CPU raises IndexError or RuntimeError.
    """
    tensor, dim, index = arguments["self"], arguments["dim"], arguments["index"]
    if tensor.layout != torch.strided:
        return index_domain("index", index, tensor.size(dim), wraps=True)
    if _rest(tensor, dim) == 0:
        return ()
    few = backend == "cuda" and index.numel() <= _FEW and fits_32_bits(tensor)
    return index_domain(
        "index", index, size_along(tensor, dim), wraps=backend == "inductor", bits=32 if few else 64
    )


@contract("index within the dimension", "index_add", "index_add_", "index_reduce", "index_reduce_")
def added(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """``0 <= index < self.size(dim)``.

    Indexing.cu ``dstIndex < dstAddDimSize``, which sees int64 values cut to 32 bits (index_reduce that leaves self out
    fills first, which sees them whole). Under deterministic algorithms index_add counts negative indices from the end,
    as compiled code does. CPU raises IndexError or RuntimeError.
    """
    tensor, dim, index = arguments["self"], arguments["dim"], arguments["index"]
    if backend == "cuda" and _rest(tensor, dim) == 0:
        return ()
    adds = "include_self" not in arguments
    cut = (
        backend == "cuda"
        and arguments.get("include_self", True)
        and fits_32_bits(tensor, index, arguments["source"])
    )
    wraps = adds and (backend == "inductor" or _wraps_on_cuda(backend))
    return index_domain(
        "index", index, size_along(tensor, dim), wraps=wraps, bits=32 if cut and not wraps else 64
    )


@contract("index within the dimension", "index_copy", "index_copy_")
def copied(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """``0 <= index < self.size(dim)``.

    IndexKernel.cu 'index_copy_(): index out of bounds'. Under deterministic algorithms CUDA counts negative indices from
    the end, as compiled code does. CPU raises IndexError.
    """
    tensor, dim, index = arguments["self"], arguments["dim"], arguments["index"]
    wraps = backend == "inductor" or _wraps_on_cuda(backend)
    return index_domain("index", index, size_along(tensor, dim), wraps=wraps)


@contract("index within the dimension", "index_fill", "index_fill_")
def filled(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """``-size <= index < size``: negative indices count from the end.

    IndexKernel.cu ``idx >= -self_dim_size && idx < self_dim_size``. CPU raises IndexError.
    """
    return index_domain(
        "index", arguments["index"], size_along(arguments["self"], arguments["dim"]), wraps=True
    )


@contract(
    "index within the dimension",
    *("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"),
)
def advanced(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """Each integer index of ``x[i, j, …]`` lies in ``[-size, size)`` of its dimension.

    A boolean index spans as many dimensions as it has. When nothing is indexed (an index without elements, a mask without
    a True, a dimension of extent 0 that isn't indexed) no index is looked at. IndexKernel.cu
    ``-sizes[i] <= index && index < sizes[i]``; accumulating, and under deterministic algorithms, makeLinearIndex, whose
    assertion has no text. CPU raises IndexError.
    """
    tensor, dimension = arguments["self"], 0
    integers: list[tuple[int, torch.Tensor, int]] = []
    masks: list[torch.Tensor] = []
    indexed: set[int] = set()
    for part, index in enumerate(arguments["indices"]):
        spans = 1
        if index is not None:
            if index.dtype in (torch.bool, torch.uint8):
                spans = index.ndim
                masks.append(index)
            else:
                integers.append((part, index, tensor.size(dimension)))
            indexed.update(range(dimension, dimension + spans))
        dimension += spans
    empty = any(index.numel() == 0 for _, index, _ in integers)
    rest = any(tensor.size(each) == 0 for each in range(tensor.ndim) if each not in indexed)
    if empty:
        return
    for part, index, size in integers:
        if rest and size:
            continue
        only = None
        for mask in masks:
            only = mask.any() if only is None else only & mask.any()
        yield from index_domain("indices", index, size, wraps=True, part=part, only=only)


@contract("index within the tensor", "take", "put", "put_")
def flat(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """``take`` and ``put_`` index the flattened tensor: ``-numel <= index < numel``.

    IndexKernel.cu 'cuda_take_put_kernel() index out of bounds'. CPU raises IndexError.
    """
    return index_domain("index", arguments["index"], arguments["self"].numel(), wraps=True)


@contract("number of elements to scatter", "masked_scatter", "masked_scatter_", fault="value_out_of_domain")
def scattered(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """``source`` has at least as many elements as ``mask``, spread over ``self``, has True.

    IndexKernel.cu ``totalElements <= srcSize``. CPU raises RuntimeError.
    """
    tensor, mask, source = arguments["self"], arguments["mask"], arguments["source"]
    if mask.dtype != torch.bool:
        return
    shape = torch.broadcast_shapes(tensor.shape, mask.shape)
    copies = torch.Size(shape).numel() // mask.numel() if mask.numel() else 0
    wanted = mask.sum() * copies
    yield whole(
        "source",
        wanted > source.numel(),
        "as many elements as mask has True",
        lambda: f"mask has {int(wanted)} True, source has {source.numel()} elements",
    )


@contract("class index", "one_hot")
def one_hot(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """Class values are not negative, and less than ``num_classes`` where that is given.

    On CUDA scatter_ asserts it (ScatterGatherKernel.cu); compiled code asserts 'one_hot: Class values must be …'. CPU
    raises RuntimeError.
    """
    classes: Any = arguments.get("num_classes", -1)
    return index_domain("self", arguments["self"], classes if classes > 0 else 2**63 - 1)


def _rest(tensor: torch.Tensor, dim: int) -> int:
    """The number of elements beside one dimension: how many each index stands for."""
    shape = list(tensor.shape)
    if shape:
        shape[dim] = 1
    return torch.Size(shape).numel()


CONTRACTS = (along_dimension, along_flat, selected, added, copied, filled, advanced, flat, scattered, one_hot)
