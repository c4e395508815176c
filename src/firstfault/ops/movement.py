"""Which element of an operator's arguments stands at a place of its result.

No operator needs a rule of its own: it is run once more, on the host, with labels in place of values. A label that
comes out was taken from where it went in, whatever the operator is called. Labels keep the order of the values, so that
an operator that selects (a sort, a pooling) selects as it did, and have random gaps, so that arithmetic can't hit one:
what comes out is believed only when two runs with different gaps agree.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import torch

from firstfault.ops import compat, contracts
from firstfault.ops.again import arguments_of, may_run_again, parts_of, results_of, run_again, values_of
from firstfault.ops.memory import Index, broadcast, broadcasts
from firstfault.ops.trace import Record, tensors_in

MAX_LABELS = 2**25  # elements that are labelled at once: 256 MiB of labels
_EXACT = 2**52  # float64 holds every integer below
_GAP = 2**24  # the mean distance of two labels where there is room for it
_CACHED = 8  # operators whose labels are kept, for the next element at fault


class Taken(NamedTuple):
    """An element of an argument. ``part`` is the tensor's number within a list argument."""

    tensor: torch.Tensor
    at: Index
    argument: str
    part: int | None


class _Given(NamedTuple):
    tensor: torch.Tensor
    argument: str
    part: int | None
    labels: torch.Tensor


class _Run(NamedTuple):
    given: tuple[_Given, ...]
    outputs: tuple[torch.Tensor | None, ...]


class Movements:
    """Answers :meth:`taken_from` for the operators of a trace; labels of the last few operators are kept."""

    def __init__(self) -> None:
        self._runs: OrderedDict[int, tuple[_Run, _Run] | None] = OrderedDict()

    def taken_from(self, record: Record, result: torch.Tensor, place: Index) -> Taken | None:
        """The argument's element that stands at ``place`` of ``result``; None when the operator made it anew.

        ``result`` is one of the operator's results, or an argument that it changed in place.
        """
        runs = self._labelled(record)
        if runs is None:
            return None
        number = next((n for n, each in enumerate(results_of(record)) if each is result), None)
        if number is None:
            return None
        found = [_look_up(run, number, place) for run in runs]
        if None in found or found[0] != found[1]:
            return None
        which, flat = found[0]  # type: ignore[misc]
        given = runs[0].given[which]
        shape = tuple(given.tensor.shape)
        index = tuple(int(at) for at in np.unravel_index(flat, shape)) if shape else ()
        return Taken(given.tensor, index, given.argument, given.part)

    def _labelled(self, record: Record) -> tuple[_Run, _Run] | None:
        if record.number not in self._runs:
            self._runs[record.number] = _two_runs(record)
            if len(self._runs) > _CACHED:
                self._runs.popitem(last=False)
        return self._runs[record.number]


def _look_up(run: _Run, number: int, place: Index) -> tuple[int, int] | None:
    output = run.outputs[number] if number < len(run.outputs) else None
    if (
        output is None
        or len(place) != output.ndim
        or any(at >= extent for at, extent in zip(place, output.shape, strict=True))
    ):
        return None
    label = output[place].item()
    for which, given in enumerate(run.given):
        labels = given.labels
        hits = (labels == label).nonzero() if labels.numel() else labels
        if len(hits) == 1:
            return which, int(hits[0, 0])
    return None


def _two_runs(record: Record) -> tuple[_Run, _Run] | None:
    """The operator on two sets of labels; None where it can't run on numbers, or must not be run again."""
    values = values_of(record)
    if not may_run_again(record) or sum(tensor.numel() for _, _, tensor in values) > MAX_LABELS:
        return None
    try:
        with compat.without_modes(), torch.no_grad(), torch.random.fork_rng(devices=[]):
            ranks = _ranks([tensor for _, _, tensor in values])
            return _run(record, values, ranks, seed=1), _run(record, values, ranks, seed=2)
    except Exception:  # whatever it is that can't take labels, it moves nothing that could be followed
        return None


def _run(
    record: Record, values: list[tuple[str, int | None, torch.Tensor]], ranks: torch.Tensor, seed: int
) -> _Run:
    """Call the operator on labels."""
    dtype = torch.float64 if any(tensor.is_floating_point() for _, _, tensor in values) else torch.int64
    labels = _labels(ranks, seed).to(dtype).split([tensor.numel() for _, _, tensor in values])
    given = tuple(
        _Given(tensor, name, part, flat) for (name, part, tensor), flat in zip(values, labels, strict=True)
    )
    labelled = {(each.argument, each.part): each.labels.reshape(each.tensor.shape) for each in given}
    return _Run(given, tuple(run_again(record, lambda name, part, _: labelled[name, part].clone())))


def _ranks(tensors: list[torch.Tensor]) -> torch.Tensor:
    """The place of each element among all of them, smallest first; equal ones in their order."""
    if not tensors:
        return torch.empty(0, dtype=torch.int64)
    values = torch.cat([tensor.detach().cpu().reshape(-1).to(torch.float64) for tensor in tensors])
    return torch.empty_like(values, dtype=torch.int64).scatter_(
        0, torch.sort(values, stable=True).indices, torch.arange(values.numel())
    )


def _labels(ranks: torch.Tensor, seed: int) -> torch.Tensor:
    """A label for each rank: in the same order, all different, at random distances."""
    gap = max(min(_GAP, _EXACT // max(ranks.numel(), 1)), 2)
    generator = torch.Generator().manual_seed(seed)
    return (ranks + 1) * gap + torch.randint(0, gap // 2, (ranks.numel(),), generator=generator)


# ---- operators that look up, choose, or compute element by element -------------------------------------------------


def operands(record: Record, result: torch.Tensor, place: Index) -> list[Taken]:
    """For an operator that computes element by element, what takes part in ``result[place]``, likeliest first.

    ``where`` puts the side that was chosen first.
    """
    names = ("self",) if record.name.split(".")[-1] in _WRITES_INTO else _SAME_PLACE.get(record.name)
    if names is None and not compat.is_pointwise(record.operator):
        return []
    found = [
        Taken(tensor, broadcast(place, result.shape, tensor.shape), name, part)
        for name, argument in arguments_of(record)
        for part, tensor in parts_of(argument)
        if (names is None or name in names)
        and name not in _PASSED_ON
        and broadcasts(tensor.shape, result.shape)
    ]
    if record.name == "aten.where":
        condition = next((argument for name, argument in arguments_of(record) if name == "condition"), None)
        if condition is not None and not bool(condition[broadcast(place, result.shape, condition.shape)]):
            found.sort(key=lambda each: each.argument != "other")
    return found


def keeps_places(record: Record) -> bool:
    """Whether each element of the result comes from the same place of the arguments, copied or computed."""
    return record.name in _SAME_PLACE or (
        compat.is_pointwise(record.operator) and record.name.split(".")[-1] not in _WRITES_INTO
    )


# Operators that keep every element at its place, or compute from the one at the same place of the named arguments.
_SAME_PLACE = {
    "aten._to_copy": ("self",),
    "aten.clone": ("self",),
    "aten.lift_fresh": ("self",),
    "aten.lift_fresh_copy": ("self",),
    "aten._pin_memory": ("self",),
    "aten._copy_from": ("self",),
    "aten._copy_from_and_resize": ("self",),
    "aten.copy_": ("src",),
    "aten.copy": ("src",),
    "aten.bucketize": ("self",),
    "aten.searchsorted": ("self",),
    "aten.floor_divide": ("self", "other"),
    "aten.isin": ("elements",),
    "aten.native_dropout": ("input",),
}
_PASSED_ON = frozenset({"out", "condition", "mask", "generator"})  # arguments that no value is computed from
# Operators that write constants or other elements into a tensor: where they wrote, the old element stood before.
_WRITES_INTO = frozenset(
    {
        "fill_",
        "fill",
        "zero_",
        "masked_fill_",
        "index_put",
        "index_put_",
        "_index_put_impl_",
        "index_fill",
        "index_fill_",
    }
    | {"scatter", "scatter_", "masked_scatter", "masked_scatter_", "index_copy", "index_copy_", "put", "put_"}
)


def chosen(record: Record, place: Index) -> Taken | None:
    """For an operator that picks elements and tells their indices (argmax, sort, topk, …), the one that it picked."""
    name = record.name.split(".")[-1]
    if name == "nonzero":
        (result,), tensor = tensors_in(record.result), record.args[0]
        return Taken(tensor, tuple(int(at) for at in result[place[0]]), "self", None)
    if name not in _CHOOSERS:
        return None
    results, tensor = tensors_in(record.result), record.args[0]
    if not results or results[-1].dtype != torch.int64:
        return None
    bound = contracts.bind(record.operator, record.args, record.kwargs)
    at, dim = int(results[-1][place]), bound.get("dim")
    if dim is None:
        return Taken(
            tensor, tuple(int(each) for each in np.unravel_index(at, tuple(tensor.shape))), "self", None
        )
    if tensor.ndim == 0:
        return Taken(tensor, (), "self", None)
    dim %= tensor.ndim
    rest = place[dim + 1 :] if len(place) == tensor.ndim else place[dim:]
    return Taken(tensor, (*place[:dim], at, *rest), "self", None)


_CHOOSERS = frozenset(
    {
        "argmax",
        "argmin",
        "max",
        "min",
        "sort",
        "topk",
        "kthvalue",
        "median",
        "nanmedian",
        "mode",
        "argsort",
        "cummax",
        "cummin",
    }
)


def indices_behind(record: Record, result: torch.Tensor, place: Index) -> list[Taken]:
    """For an operator that looks up by indices, the indices that chose what stands at ``result[place]``."""
    given = dict(arguments_of(record))
    name = record.name.split(".")[-1]
    if name == "embedding":
        return [Taken(given["indices"], place[:-1], "indices", None)]
    if name == "index_select":
        index, dim = given["index"], given["dim"] % max(result.ndim, 1)
        return [Taken(index, (place[dim],) if index.ndim else (), "index", None)]
    if name in ("gather", "take"):
        return [Taken(given["index"], place, "index", None)]
    if name in ("index", "_unsafe_index"):
        return _advanced(given["self"], given["indices"], place)
    if name in ("scatter", "scatter_") and given["index"].numel():
        return _scattered(given, place)
    return []


def _advanced(table: torch.Tensor, indices: list[torch.Tensor | None], place: Index) -> list[Taken]:
    """The elements of the index tensors in ``table[i, j, …]``.

    Each index tensor in turn counts its elements off along a table that holds nothing but its own row numbers.
    """
    if any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
        return []  # a mask has no element that chose: every True did
    found = []
    for part, index in enumerate(indices):
        if index is None:
            continue
        count = max(index.numel(), 1)
        sizes = [table.size(d) if d >= len(indices) or indices[d] is None else 1 for d in range(table.ndim)]
        numbers = torch.arange(count).reshape([count if d == part else 1 for d in range(table.ndim)])
        numbers = numbers.expand([count if d == part else size for d, size in enumerate(sizes)])
        asked = [
            None
            if each is None
            else torch.arange(count).reshape(each.shape)
            if n == part
            else torch.zeros(each.shape, dtype=torch.int64)
            for n, each in enumerate(indices)
        ]
        at = int(torch.ops.aten.index.Tensor(numbers, asked)[place])
        shape = tuple(index.shape)
        found.append(
            Taken(
                index,
                tuple(int(each) for each in np.unravel_index(at, shape)) if shape else (),
                "indices",
                part,
            )
        )
    return found


def _scattered(given: dict[str, Any], place: Index) -> list[Taken]:
    """The index that wrote ``place`` of a scatter, the last one where several did."""
    index, dim = given["index"], given["dim"] % max(given["self"].ndim, 1)
    numbers = torch.arange(index.numel()).reshape(index.shape)
    unwritten = torch.full(given["self"].shape, -1)
    at = int(unwritten.scatter(dim, index.detach().cpu(), numbers)[place])
    return (
        []
        if at < 0
        else [
            Taken(index, tuple(int(each) for each in np.unravel_index(at, tuple(index.shape))), "index", None)
        ]
    )
