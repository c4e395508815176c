"""Which samples are behind an element that an operator computed from many.

The element is marked, and marks go backwards through the operators that ran: from a result to the elements of the
arguments that it depends on. Where an operator works element by element those are the ones at the same place; else
autograd tells: the operator is run once more in float64 and differentiated, with random positive weights at the marks,
so that nothing cancels out. Where there is no derivative, an element depends on all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from firstfault.ops import movement
from firstfault.ops.again import (
    PLACES,
    arguments_of,
    may_run_again,
    parts_of,
    results_of,
    run_again,
    values_of,
)
from firstfault.ops.memory import Index, has_address
from firstfault.ops.samples import Leaf, Samples, Source
from firstfault.ops.trace import Record

MAX_RECORDS = 5_000  # operators that marks go through
MAX_ELEMENTS = 2**24  # marked elements of one operator's arguments, beyond which it isn't run again
MAX_LOOK_UPS = 4_096  # marked results whose indices are asked for one by one


class Behind(NamedTuple):
    """The positions of the samples that an element depends on, and the leaves of the batch on the way to them."""

    positions: frozenset[int]
    leaves: tuple[str, ...]

    @property
    def position(self) -> int | None:
        """The position, when it is a single one."""
        return next(iter(self.positions)) if len(self.positions) == 1 else None


def behind(
    records: Sequence[Record], samples: Samples, record: Record, result: torch.Tensor, place: Index
) -> Behind:
    """The samples behind ``result[place]``, which ``record`` wrote, as far as ``records`` tell."""
    marks = _Marks()
    marks.of(result)[place] = True
    positions: set[int] = set()
    leaves: dict[str, None] = {}
    ready: list[Leaf | Source] = sorted([*samples.leaves, *samples.sources], key=lambda each: each.time)
    earlier = [each for each in reversed(records) if each.number <= record.number][:MAX_RECORDS]
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        for each in earlier:
            while ready and ready[-1].time >= each.number:
                _arrive(ready.pop(), marks, samples, positions, leaves)
            _through(each, marks)
    while ready:
        _arrive(ready.pop(), marks, samples, positions, leaves)
    return Behind(frozenset(positions), tuple(leaves))


class _Marks:
    """Flags on elements, kept by storage, so that views of the same memory share them."""

    def __init__(self) -> None:
        self._flags: dict[tuple[int, int], torch.Tensor] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The flags of a tensor's elements, to be read and set."""
        storage, size = tensor.untyped_storage(), tensor.element_size()
        key = (storage.data_ptr(), size)
        if key not in self._flags:
            self._flags[key] = torch.zeros(storage.nbytes() // size, dtype=torch.bool)
        return self._flags[key].as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    def set_in(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The flags of a tensor's elements where any is set, else None."""
        if (
            not has_address(tensor)
            or (tensor.untyped_storage().data_ptr(), tensor.element_size()) not in self._flags
        ):
            return None
        flags = self.of(tensor)
        return flags if bool(flags.any()) else None


def _arrive(
    at: Leaf | Source, marks: _Marks, samples: Samples, positions: set[int], leaves: dict[str, None]
) -> None:
    """Note a leaf that carries marks, or a sample, where marks end."""
    flags = marks.set_in(at.tensor)
    if flags is None:
        return
    if isinstance(at, Source):
        positions.add(at.position)
        flags.fill_(False)
        return
    leaves[at.path] = None
    count = samples.count
    if (
        not any(source.path == at.path for source in samples.sources)
        and flags.ndim
        and count == flags.shape[0]
    ):
        positions.update(int(row) for row in flags.reshape(count, -1).any(1).nonzero().flatten())


def _through(record: Record, marks: _Marks) -> None:
    """Move the marks from what an operator wrote to what that depends on."""
    if not record.facts.makes and not record.written:
        return  # a view: the same memory
    marked: list[tuple[int, torch.Tensor]] = []
    for number, tensor in enumerate(results_of(record)):
        flags = marks.set_in(tensor)
        if flags is not None:
            marked.append((number, flags.clone()))
            flags.fill_(False)
    if marked:
        for tensor, depends in list(_dependencies(record, marked)):
            marks.of(tensor).logical_or_(depends)


def _dependencies(
    record: Record, marked: list[tuple[int, torch.Tensor]]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """For each tensor argument, which of its elements the marked results depend on."""
    by_place = movement.keeps_places(record)
    known = {} if by_place else derivatives(record, marked)
    for name, argument in arguments_of(record):
        for part, tensor in parts_of(argument):
            if name == "out" or not has_address(tensor) or tensor.numel() == 0:
                continue
            if by_place or name in ("condition", "mask"):
                yield tensor, _at_same_place(tensor, marked)
            elif name in PLACES:
                yield tensor, _looked_up(record, tensor, marked)
            elif known is not None:
                yield tensor, known.get((name, part), torch.zeros(tensor.shape, dtype=torch.bool))
            else:
                yield tensor, torch.ones(tensor.shape, dtype=torch.bool)


def _at_same_place(tensor: torch.Tensor, marked: list[tuple[int, torch.Tensor]]) -> torch.Tensor:
    """The marks, gathered where the tensor was broadcast; all elements where its shape says nothing."""
    depends = torch.zeros(tensor.shape, dtype=torch.bool)
    for _, flags in marked:
        if len(tensor.shape) > flags.ndim:
            return torch.ones(tensor.shape, dtype=torch.bool)
        rows = flags.flatten(0, flags.ndim - tensor.ndim).any(0) if flags.ndim > tensor.ndim else flags
        for dimension, extent in enumerate(tensor.shape):
            if extent == 1:
                rows = rows.any(dimension, keepdim=True)
        if rows.shape != tensor.shape:
            return torch.ones(tensor.shape, dtype=torch.bool)
        depends |= rows
    return depends


def _looked_up(record: Record, index: torch.Tensor, marked: list[tuple[int, torch.Tensor]]) -> torch.Tensor:
    """The indices that chose the marked results."""
    if record.name == "aten.embedding":
        return marked[0][1].any(-1)
    depends = torch.zeros(index.shape, dtype=torch.bool)
    results = results_of(record)
    for number, flags in marked:
        places = flags.nonzero().tolist()
        if len(places) > MAX_LOOK_UPS:
            return torch.ones(index.shape, dtype=torch.bool)
        for place in places:
            for taken in movement.indices_behind(record, results[number], tuple(place)):
                if taken.tensor is index:
                    depends[taken.at] = True
    return depends


def derivatives(
    record: Record, marked: list[tuple[int, torch.Tensor]]
) -> dict[tuple[str, int | None], torch.Tensor] | None:
    """Where the marked results have a derivative that isn't zero; None when the operator has none at all.

    Every argument is differentiated by if the operator allows it, integers among them; else the floating ones, else the
    first of those. What isn't differentiated by is taken to matter as a whole.
    """
    if not may_run_again(record) or sum(flags.numel() for _, flags in marked) > MAX_ELEMENTS:
        return None
    every = values_of(record)
    floating = [each for each in every if each[2].is_floating_point()]
    for by in (every, floating, floating[:1]):
        found = _derivatives_by({(name, part) for name, part, _ in by}, record, marked)
        if found is not None:
            rest = {(name, part): torch.ones(t.shape, dtype=torch.bool) for name, part, t in every}
            return rest | found
    return None


def _derivatives_by(
    by: set[tuple[str, int | None]], record: Record, marked: list[tuple[int, torch.Tensor]]
) -> dict[tuple[str, int | None], torch.Tensor] | None:
    inputs: dict[tuple[str, int | None], torch.Tensor] = {}

    def stand_in(name: str, part: int | None, tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.detach().cpu().clone()
        if (name, part) not in by:
            return copy.to(torch.float64) if copy.is_floating_point() else copy
        inputs[name, part] = copy.to(torch.float64).requires_grad_()
        return inputs[name, part] * 1  # no leaf, so that it may be changed in place

    try:
        outputs = run_again(record, stand_in)
        chosen = [(outputs[number], flags) for number, flags in marked]
        roots = [output[flags] for output, flags in chosen if output is not None and output.requires_grad]
        if not roots or len(roots) < len(marked):
            return None
        weights = [torch.rand_like(root) + 0.5 for root in roots]
        gradients = torch.autograd.grad(roots, list(inputs.values()), weights, allow_unused=True)
    except Exception:  # it doesn't run on float64, or has no derivative by these
        return None
    return {
        key: torch.zeros(inputs[key].shape, dtype=torch.bool) if gradient is None else gradient != 0
        for key, gradient in zip(inputs, gradients, strict=True)
    }
