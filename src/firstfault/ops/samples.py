"""What data starts from: the samples as the data set returned them, and the batch as the script got it.

Both are only held on to while the script runs. Tensors, and NumPy arrays, are found again by their memory; plain Python
numbers, which collate copies into a tensor of its own, by their place and value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from firstfault.ops.memory import Address, Index, has_address, index_at, span_of
from firstfault.record.failure import plain

MAX_TENSORS = 20_000  # of all samples of a batch
MAX_NUMBERS = 200_000  # plain numbers of all samples of a batch that are looked through
MAX_DEPTH = 12  # of nested containers


class Source(NamedTuple):
    """A tensor of a sample. ``time`` is the number of operators that had run when the sample was ready."""

    tensor: torch.Tensor
    path: str
    position: int
    sample: Any
    time: int


class Leaf(NamedTuple):
    """A tensor of the batch, as it was handed out when ``time`` operators had run."""

    tensor: torch.Tensor
    path: str
    time: int


class Samples:
    """The samples and the leaves of one batch. ``count`` is the number of samples, 0 when it isn't known."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.leaves: list[Leaf] = []
        self.values: list[tuple[int, Any, Any]] = []
        self.indices: tuple[Any, ...] | None = None

    @property
    def count(self) -> int:
        return len(self.indices) if self.indices is not None else len(self.values)

    def fetched(self, position: int, sample: Any, value: Any, time: int) -> None:
        """One sample came out of the data set."""
        self.values.append((position, sample, value))
        for path, tensor in tensors_with_paths(value):
            if len(self.sources) < MAX_TENSORS:
                self.sources.append(Source(tensor, path, position, plain(sample), time))

    def handed_out(self, batch: Any, indices: Sequence[Any] | None, time: int) -> None:
        """The batch is about to reach the script."""
        self.leaves = [Leaf(tensor, path, time) for path, tensor in tensors_with_paths(batch)]
        self.indices = tuple(plain(index) for index in indices) if indices is not None else None

    # ---- by memory ------------------------------------------------------------------------------------------------

    def source_at(
        self, address: Address, since: int, before: int, tensor: torch.Tensor, hint: int | None
    ) -> tuple[Source, Index] | None:
        """The sample's element at an address that was last written by operator ``since``, seen before ``before``.

        The same memory may be several samples' (a sample drawn twice): then the very tensor, and the sample at the
        position ``hint``, are preferred.
        """
        found: list[tuple[int, Source, Index]] = []
        for source in self.sources:
            if since <= source.time < before and _may_hold(source.tensor, address):
                index = index_at(source.tensor, address)
                if index is not None:
                    found.append(((source.tensor is tensor) + (source.position == hint), source, index))
        return max(found, key=lambda each: each[0])[1:] if found else None

    def leaf_at(self, address: Address, since: int, before: int) -> tuple[Leaf, Index] | None:
        """The batch leaf's element at an address, as :meth:`source_at`."""
        for leaf in self.leaves:
            if since <= leaf.time < before and _may_hold(leaf.tensor, address):
                index = index_at(leaf.tensor, address)
                if index is not None:
                    return leaf, index
        return None

    # ---- by place and value ---------------------------------------------------------------------------------------

    def index_of(self, position: int | None) -> Any:
        """The data-set index of the sample at a position of the batch."""
        if position is None or self.indices is None or not 0 <= position < len(self.indices):
            return None
        return self.indices[position]

    def leaf_of(self, source: Source) -> str | None:
        """The leaf that a sample's tensor went into, where the batch has one of the same path."""
        return next((leaf.path for leaf in self.leaves if leaf.path == source.path), None)

    def of_leaf(self, leaf: Leaf, place: Index) -> dict[str, Any]:
        """The sample behind an element of a leaf that was made of plain Python numbers, or of samples not seen.

        The position is the row's, where the leaf has a row for each sample. Where the samples were seen, the number is
        looked for in that sample, and in all samples where collate put them in another order: it counts when there is
        exactly one that fits.
        """
        row = place[0] if place and self.count and leaf.tensor.shape[0] == self.count else None
        wanted = leaf.tensor[place].item()
        numbers = [found for found in self._numbers() if _becomes(found[2], wanted, leaf.tensor.dtype)]
        at_row = [found for found in numbers if found[0] == row]
        same_path = [found for found in at_row if found[1] in (leaf.path, leaf.path + _subscripts(place[1:]))]
        for candidates in (same_path, at_row, numbers if self.values and not at_row else []):
            if len(candidates) == 1:
                at, path, _ = candidates[0]
                return {"position": at, "sample": self._index_at(at), "within": (), "path": path}
        position = row if at_row or not self.values or not numbers else None
        within = place[1:] if row is not None else place
        return {"position": position, "sample": self._index_at(position), "within": within}

    def _index_at(self, position: int | None) -> Any:
        found = self.index_of(position)
        return (
            found
            if found is not None
            else next((plain(sample) for at, sample, _ in self.values if at == position), None)
        )

    def reaching(self, shape: tuple[int, ...], place: Index) -> dict[str, Any]:
        """The sample whose extent alone reaches a place of a tensor that no data went into (a table of positions).

        It must have one of the tensor's extents, so that it decided it. Of several that reach the place, the longest.
        """
        extents = [
            (position, extent) for position, _, value in self.values for extent in set(_extents(value))
        ]
        for extent, at in zip(shape, place, strict=True):
            reaching = {position for position, each in extents if each > at}
            deciding = {position for position, each in extents if each == extent}
            chosen = reaching if len(reaching) == 1 else deciding
            if len(chosen) == 1 and chosen & deciding and len(reaching) < max(self.count, 2):
                position = next(iter(chosen))
                return {"position": position, "sample": self._index_at(position)}
        return {}

    def _numbers(self) -> Iterator[tuple[int, str, Any]]:
        left = MAX_NUMBERS
        for position, _, value in self.values:
            for path, number in _numbers_with_paths(value):
                left -= 1
                if left < 0:
                    return
                yield position, path, number


def _may_hold(tensor: torch.Tensor, address: Address) -> bool:
    if not has_address(tensor):
        return False
    first, stop = span_of(tensor)
    return first <= address.byte < stop


def _becomes(number: Any, wanted: Any, dtype: torch.dtype) -> bool:
    """Whether a plain number is ``wanted`` once it is stored in a tensor of that dtype."""
    if number == wanted:
        return True
    if not isinstance(number, float) or not dtype.is_floating_point:
        return False
    return torch.tensor(number, dtype=dtype).item() == wanted


def _subscripts(index: Sequence[int]) -> str:
    return "".join(f"[{at}]" for at in index)


# ---- containers ----------------------------------------------------------------------------------------------------


def children(value: Any) -> list[tuple[str, Any]] | None:
    """What a container holds, with how each is reached: ``"['mask']"``, ``"[0]"``, ``".boxes"``; None for no container."""
    if isinstance(value, (torch.Tensor, np.ndarray, str, bytes, type)):
        return None
    if isinstance(value, dict) or (hasattr(value, "keys") and hasattr(value, "__getitem__")):
        return [(f"[{key!r}]", value[key]) for key in value.keys()]  # noqa: SIM118 (mappings of other libraries)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", item) for name, item in zip(value._fields, value, strict=True)]
    if isinstance(value, (list, tuple)):
        return [(f"[{number}]", item) for number, item in enumerate(value)]
    if dataclasses.is_dataclass(value):
        return [(f".{field.name}", getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    if hasattr(value, "__dict__") and not callable(value):
        return [(f".{name}", item) for name, item in vars(value).items()]
    return None


def tensors_with_paths(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a sample or a batch with the path to each; NumPy arrays as tensors over the same memory."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, np.ndarray):
        tensor = _over_same_memory(value)
        if tensor is not None:
            yield path, tensor
    elif depth < MAX_DEPTH:
        for step, child in children(value) or ():
            yield from tensors_with_paths(child, path + step, depth + 1)


def _over_same_memory(array: np.ndarray) -> torch.Tensor | None:
    try:
        return torch.from_numpy(array if array.flags.writeable else _writeable_view(array))
    except (TypeError, ValueError):  # strings, objects, negative strides
        return None


def _writeable_view(array: np.ndarray) -> np.ndarray:
    """The same memory without NumPy's write protection, over which torch would warn; nothing here writes to it."""
    view = array.view()
    interface = dict(view.__array_interface__)
    interface["data"] = (interface["data"][0], False)
    holder = type("Memory", (), {"__array_interface__": interface, "array": array})()
    return np.asarray(holder)


def _numbers_with_paths(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        yield path, value.item() if isinstance(value, np.generic) else value
    elif depth < MAX_DEPTH:
        for step, child in children(value) or ():
            yield from _numbers_with_paths(child, path + step, depth + 1)


def _extents(value: Any, depth: int = 0) -> Iterator[int]:
    """Every extent of a sample: dimensions of its tensors and arrays, lengths of its lists and texts."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        yield from value.shape
    elif isinstance(value, (str, bytes)):
        yield len(value)
    elif depth < MAX_DEPTH:
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            yield len(value)
        for _, child in children(value) or ():
            yield from _extents(child, depth + 1)
