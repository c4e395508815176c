"""Where an element came from: back from an operator's argument to the batch, the sample and the place within it.

Views need no rule: an element is a place in memory, whoever looks at it. So the search goes from an address to the last
operator that wrote it, from there to the element of its arguments that it was taken from or computed from
(:mod:`firstfault.ops.movement`), and so on until the address lies in a tensor of a sample or of the batch. Where an
operator mixes many elements, the search goes on with all of them at once, for the sample alone
(:mod:`firstfault.ops.influence`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch

from firstfault.case.findings import Element
from firstfault.ops import compat, influence, movement
from firstfault.ops.again import results_of
from firstfault.ops.memory import Address, Index, address_of, has_address, index_at, span_of
from firstfault.ops.movement import Movements, Taken
from firstfault.ops.samples import Leaf, Samples, Source
from firstfault.ops.trace import Record, tensors_in

_FRESH = re.compile(r"aten\.(new_\w+|\w+_like)$")  # operators that take only a shape from their arguments
_HALF_PRECISION = 1e-2  # bfloat16 keeps 8 bits
MAX_STEPS = 200  # operators that are looked at for one element
MAX_SHOWN = 12  # operators that changed the value, as named in the finding


class Origin(NamedTuple):
    """What a search ended at. ``changed`` has the operators that changed the value, newest first."""

    source: Source | None = None
    within: Index = ()
    leaf: Leaf | None = None
    place: Index = ()
    changed: tuple[str, ...] = ()
    made: tuple[Record, torch.Tensor, Index] | None = None
    mixed: tuple[Record, torch.Tensor, Index] | None = None

    def found(self) -> bool:
        """Whether it ended at a sample or at the batch."""
        return self.source is not None or self.leaf is not None


class _Writer(NamedTuple):
    number: int
    record: Record
    tensor: torch.Tensor
    first: int
    stop: int


class Origins:
    """The records of one batch, ready to be searched backwards.

    Args:
        records: the operators in the order in which they ran.
        samples: what the data set returned and what the batch was made of.
    """

    def __init__(self, records: Iterable[Record], samples: Samples) -> None:
        self.records = list(records)
        self.samples = samples
        self.movements = Movements()
        self.writers: dict[str, list[_Writer]] = {}
        for record in self.records:
            for tensor in _written(record):
                self.writers.setdefault(str(tensor.device), []).append(
                    _Writer(record.number, record, tensor, *span_of(tensor))
                )

    def element(self, tensor: torch.Tensor, index: Index, value: Any, before: int) -> Element:
        """The origin of ``tensor[index]`` as it stood before the operator with number ``before``.

        A leaf and a sample are named only when the element was followed to them; ``within`` and ``path`` only when it
        is one element of the sample.
        """
        with compat.without_modes(), torch.no_grad():
            origin = _Search(self, before).follow(tensor, index, before)
            return self._described(origin, index, value)

    # ---- the search's questions -----------------------------------------------------------------------------------

    def last_writer(self, address: Address, before: int) -> tuple[_Writer, Index] | None:
        """The last operator before a number that wrote an address, and where in its result that is."""
        for writer in reversed(self.writers.get(address.device, ())):
            if writer.number < before and writer.first <= address.byte < writer.stop:
                place = index_at(writer.tensor, address)
                if place is not None:
                    return writer, place
        return None

    def value(self, tensor: torch.Tensor, index: Index, before: int) -> Any:
        """The value of ``tensor[index]`` just before an operator; None when it can't be known any more.

        Memory shows what the last operator left there. If one wrote the element since, the copy taken before it helps.
        """
        address = address_of(tensor, index)
        if address is None:
            return None
        for writer in self.writers.get(address.device, ()):
            if writer.number < before or not writer.first <= address.byte < writer.stop:
                continue
            place = index_at(writer.tensor, address)
            if place is None:
                continue
            copy = next(
                (copy for changed, _, copy in writer.record.written if changed is writer.tensor), None
            )
            return None if copy is None else _plain(copy[place].item())
        return _plain(tensor[index].item())

    # ---- the result -----------------------------------------------------------------------------------------------

    def _described(self, origin: Origin, index: Index, value: Any) -> Element:
        changed = tuple(reversed(origin.changed))[-MAX_SHOWN:]
        if origin.source is not None:
            source = origin.source
            return Element(
                index=index,
                value=value,
                leaf=origin.leaf.path if origin.leaf is not None else self.samples.leaf_of(source),
                position=source.position,
                sample=source.sample,
                within=origin.within,
                path=source.path + _subscripts(origin.within),
                changed_by=changed,
            )
        if origin.leaf is not None:
            match = self.samples.of_leaf(origin.leaf, origin.place)
            return Element(index=index, value=value, leaf=origin.leaf.path, changed_by=changed, **match)
        if origin.mixed is not None:
            return self._mixed(origin, index, value, changed)
        if origin.made is not None:
            _, made, place = origin.made
            return Element(
                index=index,
                value=value,
                changed_by=changed,
                **self.samples.reaching(tuple(made.shape), place),
            )
        return Element(index=index, value=value, changed_by=changed)

    def _mixed(self, origin: Origin, index: Index, value: Any, changed: tuple[str, ...]) -> Element:
        """An element that was computed from many: the sample, if one alone is behind it."""
        assert origin.mixed is not None
        record, result, place = origin.mixed
        behind = influence.behind(self.records, self.samples, record, result, place)
        position, leaves = behind.position, behind.leaves
        if (
            position is None
            and place
            and self.samples.count
            and result.shape[0] == self.samples.count
            and place[0] in behind.positions
        ):
            position = place[0]  # rows that only share statistics (BatchNorm) stay one sample's
        return Element(
            index=index,
            value=value,
            leaf=leaves[0] if len(leaves) == 1 else None,
            position=position,
            sample=self.samples.index_of(position),
            changed_by=changed,
        )


class _Search:
    """One element's search: depth first, the likeliest argument first, each element at most once."""

    def __init__(self, origins: Origins, before: int) -> None:
        self.origins = origins
        self.seen: set[tuple[Address, int]] = set()

    def follow(
        self,
        tensor: torch.Tensor,
        index: Index,
        before: int,
        leaf: tuple[Leaf, Index] | None = None,
        part: int | None = None,
    ) -> Origin:
        """The origin of an element as it stood before an operator; ``leaf`` is the batch leaf passed on the way."""
        address = address_of(tensor, index)
        if address is None or (address, before) in self.seen or len(self.seen) >= MAX_STEPS:
            return Origin(leaf=leaf[0] if leaf else None, place=leaf[1] if leaf else ())
        self.seen.add((address, before))
        samples = self.origins.samples
        written = self.origins.last_writer(address, before)
        since = written[0].number if written is not None else 0
        leaf = leaf or samples.leaf_at(address, since, before)
        hint = leaf[1][0] if leaf is not None and leaf[1] else part
        source = samples.source_at(address, since, before, tensor, hint)
        if source is not None:
            return Origin(
                source=source[0],
                within=source[1],
                leaf=leaf[0] if leaf else None,
                place=leaf[1] if leaf else (),
            )
        if written is None:
            return Origin(leaf=leaf[0] if leaf else None, place=leaf[1] if leaf else ())
        writer, place = written
        return self._through(writer.record, writer.tensor, place, leaf)

    def _through(
        self, record: Record, result: torch.Tensor, place: Index, leaf: tuple[Leaf, Index] | None
    ) -> Origin:
        """Go on with the arguments of the operator that wrote the element; the first that leads to a sample wins."""
        after = self.origins.value(result, place, record.number + 1)
        best: Origin | None = None
        options = self._options(record, result, place, after)
        for taken, same in options:
            origin = self.follow(taken.tensor, taken.at, record.number, leaf, taken.part)
            before = self.origins.value(taken.tensor, taken.at, record.number)
            if not same and not _equal(before, after, rounded=record.name == "aten._to_copy"):
                change = f"{record.name}: {_shown(before)} -> {_shown(after)}"
                origin = origin._replace(changed=(change, *origin.changed))
            if origin.found():
                return origin
            if best is None or (origin.mixed is not None and best.mixed is None):
                best = origin
        if best is not None and (best.made is not None or best.mixed is not None):
            return best
        mixes = bool(tensors_in([*record.args, *record.kwargs.values()])) and not is_fresh(record)
        change = f"{record.name}: made {_shown(after)}"
        found = (record, result, place)
        return Origin(
            leaf=leaf[0] if leaf else None,
            place=leaf[1] if leaf else (),
            changed=(change,),
            made=None if mixes else found,
            mixed=found if mixes else None,
        )

    def _options(
        self, record: Record, result: torch.Tensor, place: Index, after: Any
    ) -> list[tuple[Taken, bool]]:
        """The arguments' elements to go on with, each with whether it is the same element, merely moved."""
        if movement.keeps_places(record):
            found = movement.operands(record, result, place)
            if record.name != "aten.where":
                found.sort(
                    key=lambda each: (
                        not _equal(self.origins.value(each.tensor, each.at, record.number), after)
                    )
                )
            return [(each, False) for each in found]
        moved = self.origins.movements.taken_from(record, result, place)
        further = movement.operands(record, result, place)
        picked = movement.chosen(record, place) if moved is None else None
        further += ([picked] if picked is not None else []) + movement.indices_behind(record, result, place)
        return [*([(moved, True)] if moved is not None else []), *((each, False) for each in further)]


def _written(record: Record) -> list[torch.Tensor]:
    """The tensors whose memory a call wrote: arguments that it changed, and results that are no views of its arguments."""
    changed = [tensor for tensor, _, _ in record.written if has_address(tensor)]
    if not record.facts.makes:
        return changed
    given = {
        tensor.data_ptr()
        for tensor in tensors_in([*record.args, *record.kwargs.values()])
        if has_address(tensor) and tensor.numel()
    }
    return changed + [
        tensor
        for tensor in results_of(record)
        if has_address(tensor)
        and not any(tensor is each for each in changed)
        and tensor.data_ptr() not in given
    ]


def is_fresh(record: Record) -> bool:
    """Whether an operator takes only a shape from its arguments."""
    return _FRESH.match(record.name) is not None


def _plain(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def _shown(value: Any) -> str:
    return "?" if value is None else str(value)


def _equal(one: Any, other: Any, *, rounded: bool = False) -> bool:
    """Whether two values are the same; ``rounded`` lets a float pass that was stored in another precision."""
    if one is None or other is None:
        return False
    if isinstance(one, float) and isinstance(other, float):
        return (
            one == other
            or (one != one and other != other)
            or (rounded and math.isclose(one, other, rel_tol=_HALF_PRECISION))
        )
    return bool(one == other)


def _subscripts(index: Sequence[int]) -> str:
    return "".join(f"[{at}]" for at in index)
