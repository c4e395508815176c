"""A contract, a breach of one, and the one way in which elements outside a domain are found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from firstfault.case.schema import Fact

MAX_ELEMENTS = 16  # elements of a breach that are named; the count covers all


class Broken(Fact, frozen=True, kw_only=True):
    """One contract that a call breaks.

    ``indices`` are positions inside the argument's tensor, ``values`` what stands there, ``count`` how many elements
    are at fault in all. ``part`` names the tensor of a list argument, e.g. 0 for the first index of ``x[i, j]``.
    """

    contract: str
    argument: str
    allowed: str
    indices: tuple[tuple[int, ...], ...] = ()
    values: tuple[Any, ...] = ()
    count: int = 0
    part: int | None = None
    note: str | None = None


Rule = Callable[[Mapping[str, Any]], Iterable[Broken]]


class Contract(Fact, frozen=True, kw_only=True):
    """A rule and the operators that it holds for."""

    name: str
    operators: tuple[str, ...]
    rule: Rule


def outside(
    contract: str,
    argument: str,
    tensor: torch.Tensor,
    allowed: str,
    bad: torch.Tensor,
    *,
    part: int | None = None,
    note: str | None = None,
) -> list[Broken]:
    """The breach that a mask of bad elements makes, or nothing. One synchronisation when nothing is bad."""
    if bad.numel() == 0 or not bool(bad.any()):
        return []
    positions = bad.nonzero()[:MAX_ELEMENTS].cpu()
    return [
        Broken(
            contract=contract,
            argument=argument,
            allowed=allowed,
            indices=tuple(tuple(int(number) for number in position) for position in positions),
            values=tuple(tensor[tuple(position)].item() for position in positions),
            count=int(bad.sum()),
            part=part,
            note=note,
        )
    ]


def index_domain(
    contract: str,
    argument: str,
    index: Any,
    size: int,
    *,
    negative: bool,
    ignored: int | None = None,
    part: int | None = None,
) -> list[Broken]:
    """Elements of an integer tensor outside ``[0, size)``, or ``[-size, size)`` where negative ones count from the end."""
    if not isinstance(index, torch.Tensor) or index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
        return []
    low = -size if negative else 0
    bad = (index < low) | (index >= size)
    allowed = f"[{low}, {size})"
    if ignored is not None:
        bad &= index != ignored
        allowed += f" or {ignored}"
    return outside(contract, argument, index, allowed, bad, part=part)
