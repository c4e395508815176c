"""Where an element came from: back from an operator's argument to the batch, the sample and the place within it.

Views need no rule at all: an element is a place in memory, whoever looks at it. An operator that moved elements is run
once more on labels instead of values, which tells for each result where it was taken from, for any operator. An
operator that computed new values is named, with the value before and after, and followed through its first operand.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from firstfault.case.findings import Element
from firstfault.ops.trace import Record, tensors_in

MAX_STEPS = 64  # operators that are followed back for one element
# Arguments that say where to take from, not what: labels never stand in for them.
_PLACES = frozenset({"index", "indices", "mask", "condition", "offsets", "dim", "sorted_indices", "batch_sizes"})
_CONVERTS = frozenset({"aten._to_copy", "aten.to", "aten.clone", "aten.contiguous", "aten.lift_fresh", "aten.lift_fresh_copy", "aten.alias", "aten.detach"})
_COPIES = frozenset({"aten.copy_", "aten.copy"})

Address = tuple[int, int]  # a storage, and an element's byte in it


class Source:
    """A tensor that data starts from: one of a sample, or a leaf of the batch."""

    __slots__ = ("path", "position", "sample", "tensor")

    def __init__(self, tensor: torch.Tensor, path: str, position: int | None = None, sample: Any = None) -> None:
        self.tensor = tensor
        self.path = path
        self.position = position
        self.sample = sample


class Origins:
    """The records of one batch, ready to be searched backwards.

    Args:
        records: the operators in the order in which they ran.
        samples: tensors that the data set returned, with their position in the batch.
        leaves: tensors of the batch as it was handed out.
        indices: the batch's data-set indices, if it has any.
    """

    def __init__(
        self, records: Iterable[Record], samples: Sequence[Source], leaves: Sequence[Source], indices: Sequence[Any] | None
    ) -> None:
        self.records = list(records)
        self.samples = samples
        self.leaves = leaves
        self.indices = indices
        self.writers: dict[int, list[tuple[int, torch.Tensor]]] = {}
        for number, record in enumerate(self.records):
            for tensor in _written(record):
                self.writers.setdefault(_storage(tensor), []).append((number, tensor))

    def element(self, tensor: torch.Tensor, index: tuple[int, ...], value: Any) -> Element:
        """The origin of ``tensor[index]`` as an element of a finding."""
        changed: list[str] = []
        before = len(self.records)
        leaf: tuple[Source, tuple[int, ...]] | None = None
        for _ in range(MAX_STEPS):
            address = _address(tensor, index)
            leaf = leaf or _covering(self.leaves, address)
            sample = _covering(self.samples, address)
            if sample is not None:
                return self._from_sample(index_of=index, value=value, leaf=leaf, sample=sample, changed=changed)
            step = self._back(address, before)
            if step is None:
                break
            before, record, result, place = step
            came_from = _taken_from(record, result, place)
            if came_from is None:
                source = _operand(record, result, place)
                made = f"{record.name}: made {_item(result, place)}"
                if source is None:
                    changed.append(made)
                    return self._made(value, leaf, changed, result, place)
                tensor, index = source
                changed.append(f"{record.name}: {_item(tensor, index)} -> {_item(result, place)}")
            else:
                tensor, index = came_from
        return self._from_leaf(value, leaf, changed)

    def _back(self, address: Address, before: int) -> tuple[int, Record, torch.Tensor, tuple[int, ...]] | None:
        """The last operator before ``before`` that wrote the element at an address, and where in its result."""
        for number, tensor in reversed(self.writers.get(address[0], [])):
            if number < before:
                place = _index_at(tensor, address[1])
                if place is not None:
                    return number, self.records[number], tensor, place
        return None

    # ---- results --------------------------------------------------------------------------------------------------

    def _from_sample(
        self, *, index_of: tuple[int, ...], value: Any, leaf: Any, sample: tuple[Source, tuple[int, ...]], changed: list[str]
    ) -> Element:
        source, within = sample
        return Element(
            index=index_of,
            value=value,
            leaf=leaf[0].path if leaf is not None else None,
            position=source.position,
            sample=source.sample,
            within=within,
            changed_by=tuple(reversed(changed)),
        )

    def _from_leaf(self, value: Any, leaf: tuple[Source, tuple[int, ...]] | None, changed: list[str]) -> Element:
        if leaf is None:
            return Element(index=(), value=value, changed_by=tuple(reversed(changed)))
        source, place = leaf
        position = sample = None
        if place and self.indices is not None and source.tensor.shape[0] == len(self.indices):
            position = place[0]
            sample = self.indices[position]
        return Element(
            index=(),
            value=value,
            leaf=source.path,
            position=position,
            sample=sample,
            within=place[1:] if position is not None else place,
            changed_by=tuple(reversed(changed)),
        )

    def _made(self, value: Any, leaf: Any, changed: list[str], made: torch.Tensor, place: tuple[int, ...]) -> Element:
        """An element that no sample holds. If one sample's extent alone reaches it, that sample is named."""
        if leaf is not None:
            return self._from_leaf(value, leaf, changed)
        for extent, at in zip(made.shape, place, strict=True):
            long_enough = {source.position: source for source in self.samples if any(n > at for n in source.tensor.shape)}
            reaching = [source for source in long_enough.values() if extent in source.tensor.shape]
            if len(long_enough) == 1 and reaching:
                return Element(
                    index=(), value=value, position=reaching[0].position, sample=reaching[0].sample, changed_by=tuple(reversed(changed))
                )
        return Element(index=(), value=value, changed_by=tuple(reversed(changed)))


def _written(record: Record) -> list[torch.Tensor]:
    """The tensors whose memory an operator wrote: results that are no views of its arguments, and mutated arguments."""
    arguments = record.operator._schema.arguments
    bound = dict(zip([argument.name for argument in arguments], record.args, strict=False)) | record.kwargs
    mutated = [
        tensor
        for argument in arguments
        if argument.alias_info is not None and argument.alias_info.is_write
        for tensor in tensors_in(bound.get(argument.name))
    ]
    owned = {_storage(tensor) for tensor in tensors_in(list(bound.values()))}
    return mutated + [tensor for tensor in tensors_in(record.result) if _storage(tensor) not in owned]


def _storage(tensor: torch.Tensor) -> int:
    if tensor.layout != torch.strided or tensor.is_nested:
        return 0
    return tensor.untyped_storage().data_ptr()


def _address(tensor: torch.Tensor, index: tuple[int, ...]) -> Address:
    offset = tensor.storage_offset() + sum(i * s for i, s in zip(index, tensor.stride(), strict=True))
    return _storage(tensor), offset * tensor.element_size()


def _index_at(tensor: torch.Tensor, byte: int) -> tuple[int, ...] | None:
    """The index of the element at a byte of the tensor's storage; the first one where several share it."""
    size = tensor.element_size()
    offset, rest = divmod(byte, size)
    offset -= tensor.storage_offset()
    if rest or offset < 0 or tensor.numel() == 0:
        return None
    index = [0] * tensor.ndim
    for dimension in sorted(range(tensor.ndim), key=lambda d: -tensor.stride(d)):
        stride = tensor.stride(dimension)
        if stride > 0:
            index[dimension] = min(offset // stride, tensor.size(dimension) - 1)
            offset -= index[dimension] * stride
    return tuple(index) if offset == 0 else None


def _covering(sources: Sequence[Source], address: Address) -> tuple[Source, tuple[int, ...]] | None:
    if address[0] == 0:
        return None
    for source in sources:
        if _storage(source.tensor) == address[0]:
            index = _index_at(source.tensor, address[1])
            if index is not None:
                return source, index
    return None


def _item(tensor: torch.Tensor, index: tuple[int, ...]) -> Any:
    with _disable_current_modes():
        value = tensor[index].item()
    return round(value, 6) if isinstance(value, float) else value


def _taken_from(record: Record, result: torch.Tensor, place: tuple[int, ...]) -> tuple[torch.Tensor, tuple[int, ...]] | None:
    """The argument element that ``result[place]`` was taken from, if the operator only moves elements."""
    if record.name in _CONVERTS:
        source = tensors_in(record.args)[:1]
        return (source[0], place) if source and source[0].shape == result.shape else None
    if record.name in _COPIES:
        source = tensors_in(record.args)[1:2]
        return (source[0], _broadcast(place, result.shape, source[0].shape)) if source else None
    with _disable_current_modes():
        try:
            found = _by_labels(record, result, place)
        except Exception:
            return None
    if found is None or not _equal(_item(*found), _item(result, place)):
        return None
    return found


def _equal(one: Any, other: Any) -> bool:
    return one == other or (one != one and other != other)


def _by_labels(record: Record, result: torch.Tensor, place: tuple[int, ...]) -> tuple[torch.Tensor, tuple[int, ...]] | None:
    """Run the operator on labels, element numbers that are unique over all its value arguments."""
    arguments = [argument.name for argument in record.operator._schema.arguments]
    taken: list[tuple[int, torch.Tensor]] = []
    counter = itertools.count(1)

    def labelled(value: Any, name: str) -> Any:
        if isinstance(value, torch.Tensor) and name not in _PLACES and name != "out":
            first = next(counter)
            labels = torch.arange(first, first + value.numel(), dtype=torch.float64).reshape(value.shape)
            for _ in range(value.numel() - 1):
                next(counter)
            taken.append((first, value))
            return labels if result.is_floating_point() else labels.to(torch.int64)
        if isinstance(value, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in value):
            return [labelled(item, name) if isinstance(item, torch.Tensor) else item for item in value]
        return value.clone() if isinstance(value, torch.Tensor) and name not in _PLACES else value

    args = tuple(labelled(value, name) for name, value in zip(arguments, record.args, strict=False))
    kwargs = {name: labelled(value, name) for name, value in record.kwargs.items() if name not in ("out", "dtype")}
    operator = record.operator
    if "out" in record.kwargs:
        operator = getattr(torch.ops.aten, record.name.split(".")[1])
    labels = operator(*args, **kwargs)
    outputs = tensors_in(labels)
    originals = tensors_in(record.result) or [result]
    number = next((n for n, each in enumerate(originals) if each is result), 0)
    if number >= len(outputs) or outputs[number].shape != result.shape:
        return None
    label = int(outputs[number][place].item())
    for first, source in taken:
        if first <= label < first + source.numel():
            flat = label - first
            return source, tuple(int(i) for i in np.unravel_index(flat, source.shape)) if source.ndim else ()
    return None


def _operand(record: Record, result: torch.Tensor, place: tuple[int, ...]) -> tuple[torch.Tensor, tuple[int, ...]] | None:
    """For an elementwise operator, the element of its first operand that takes part in ``result[place]``."""
    for tensor in tensors_in(record.args):
        if tensor.dtype == torch.bool or tensor.layout != torch.strided:
            continue
        if tensor.ndim <= result.ndim and all(
            n in (1, m) for n, m in zip(reversed(tensor.shape), reversed(result.shape), strict=False)
        ):
            return (tensor, _broadcast(place, result.shape, tensor.shape)) if tensor.numel() > 1 or result.numel() == 1 else None
        return None
    return None


def _broadcast(place: tuple[int, ...], shape: Sequence[int], source: Sequence[int]) -> tuple[int, ...]:
    """The place in a tensor that was broadcast to ``shape``."""
    kept = place[len(shape) - len(source) :]
    return tuple(0 if extent == 1 else at for at, extent in zip(kept, source, strict=True))
