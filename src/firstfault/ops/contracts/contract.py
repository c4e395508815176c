"""A contract: a rule on an operator's arguments, what it suspects, and what is found broken.

A rule never looks at values itself. It gives *suspects*: masks, computed where the tensors are, of the elements that it
doesn't allow. All suspects of a call are then looked at together, so that a call whose arguments live on a device is
waited for once, whatever the number of its rules.

Rules differ between back ends. ``'cuda'`` is what the CUDA kernels assert (ROCm builds them from the same source, XPU
has the same assertions), ``'cpu'`` what the CPU kernels refuse, ``'inductor'`` what code made by ``torch.compile``
refuses on either. A call that no check refuses but that reads or writes outside of a tensor's memory is broken too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch

from firstfault.case.schema import Fact

MAX_ELEMENTS = 16  # elements of a breach that are named; the count covers all

Arguments = Mapping[str, Any]  # by the names of the operator's schema, defaults filled in
Backend = Literal["cpu", "cuda", "inductor"]


class Broken(Fact, frozen=True, kw_only=True):
    """One contract that a call breaks.

    ``indices`` are positions inside the argument's tensor, ``values`` what stands there, ``count`` how many elements are
    at fault in all; a number that is no tensor has the position ``()``. Without indices the argument as a whole is at
    fault and ``note`` says why. ``part`` is the number of the tensor in a list argument, e.g. 0 for ``i`` in ``x[i, j]``.
    ``fault`` is the class of fault in the catalogue.
    """

    contract: str
    argument: str
    allowed: str
    indices: tuple[tuple[int, ...], ...] = ()
    values: tuple[Any, ...] = ()
    count: int = 0
    part: int | None = None
    note: str | None = None
    fault: str = "index_out_of_domain"


class Suspect(NamedTuple):
    """What a rule doesn't allow, not yet looked at.

    ``bad`` masks the elements of ``tensor``, or, where ``tensor`` is None, tells with one flag whether the argument as a
    whole is at fault. ``value`` is the number at fault of an argument that is no tensor. ``note`` may be a function, for
    a text with numbers that are known on the device only; it is called when the suspect is found guilty.
    """

    argument: str
    allowed: str
    bad: torch.Tensor | bool
    tensor: torch.Tensor | None = None
    part: int | None = None
    value: Any = None
    note: str | Callable[[], str] | None = None


Rule = Callable[[Arguments, Backend], Iterable[Suspect]]


class Contract(NamedTuple):
    """A rule, the operators that it holds for, and the class of fault that breaking it is."""

    name: str
    operators: tuple[str, ...]
    rule: Rule
    fault: str


def contract(
    name: str, *operators: str, fault: str = "index_out_of_domain", namespace: str = "aten"
) -> Callable[[Rule], Contract]:
    """Make a rule the contract of some operators, named without their namespace."""
    return lambda rule: Contract(name, tuple(f"{namespace}.{each}" for each in operators), rule, fault)


# ---- what rules say ---------------------------------------------------------------------------------------------------


def index_domain(
    argument: str,
    index: Any,
    size: int,
    *,
    wraps: bool = False,
    ignored: int | None = None,
    bits: int = 64,
    part: int | None = None,
    only: torch.Tensor | None = None,
) -> Iterable[Suspect]:
    """Elements of an integer tensor outside ``[0, size)``, or ``[-size, size)`` where negative ones count from the end.

    ``bits=32`` is for kernels that cut an int64 down before they test it: 2**32 + 1 is then 1, and 2**31 negative.
    ``only`` masks the elements that the operator looks at.
    """
    if not is_integer(index) or index.numel() == 0:
        return
    low = -size if wraps else 0
    wide = (
        index.long()
    )  # a narrow type can't be compared with a size, or an ignored value, that it can't hold
    if bits == 32:
        wide = wide.int().long()
    bad = (wide < low) | (wide >= size)
    allowed = f"[{low}, {size})"
    if ignored is not None:
        bad &= wide != ignored
        allowed += f" or {ignored}"
    if only is not None:
        bad &= only
    yield Suspect(argument, allowed, bad, index, part)


def interval(argument: str, value: Any, low: float, high: float = float("inf")) -> Iterable[Suspect]:
    """Elements of a floating tensor, or a number, outside ``[low, high]``; NaN is outside."""
    allowed = f"[{low:g}, {high:g}]" if high != float("inf") else f">= {low:g}"
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.numel():
            yield Suspect(argument, allowed, ~((value >= low) & (value <= high)), value)
    elif isinstance(value, (int, float)) and not low <= value <= high:
        yield Suspect(argument, allowed, True, value=value)


def whole(
    argument: str, bad: torch.Tensor | bool, allowed: str, note: str | Callable[[], str] | None = None
) -> Suspect:
    """An argument that is at fault as a whole, not in single elements."""
    return Suspect(argument, allowed, bad, note=note)


# ---- what rules ask ---------------------------------------------------------------------------------------------------


def is_integer(value: Any) -> bool:
    """Whether a value is a tensor of whole numbers."""
    return isinstance(value, torch.Tensor) and not (
        value.is_floating_point() or value.is_complex() or value.dtype == torch.bool
    )


def size_along(tensor: torch.Tensor, dim: int) -> int:
    """A dimension's extent; a tensor without dimensions counts as one element along dimension 0."""
    return tensor.size(dim) if tensor.ndim else 1


def fits_32_bits(*tensors: torch.Tensor) -> bool:
    """Whether CUDA kernels count the elements of these tensors with 32 bits (ATen/native/IndexingUtils.cpp)."""
    limit = 2**31 - 1
    return all(
        tensor.numel() == 0
        or (
            tensor.numel() < limit
            and sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
            < limit
        )
        for tensor in tensors
    )


# ---- what is found ----------------------------------------------------------------------------------------------------


def found(suspects: Sequence[tuple[Contract, Suspect]]) -> tuple[Broken, ...]:
    """The suspects that are guilty. One synchronisation a device for all; more only to name elements at fault."""
    return tuple(
        _broken(contract, suspect)
        for (contract, suspect), guilty in zip(
            suspects, _flags([each.bad for _, each in suspects]), strict=True
        )
        if guilty
    )


def _flags(masks: Sequence[torch.Tensor | bool]) -> list[bool]:
    """Whether anything is set in each mask; all masks of a device are brought to the host together."""
    flags = [mask if isinstance(mask, bool) else False for mask in masks]
    devices: dict[torch.device, list[int]] = {}
    for number, mask in enumerate(masks):
        if isinstance(mask, torch.Tensor) and mask.numel():
            devices.setdefault(mask.device, []).append(number)
    for numbers in devices.values():
        tensors = [masks[number].any() for number in numbers]  # type: ignore[union-attr]
        together = torch.stack(tensors).tolist() if len(tensors) > 1 else [bool(tensors[0])]
        for number, flag in zip(numbers, together, strict=True):
            flags[number] = flag
    return flags


def _broken(contract: Contract, suspect: Suspect) -> Broken:
    indices: tuple[tuple[int, ...], ...] = ()
    values: tuple[Any, ...] = ()
    count = 1
    if suspect.tensor is not None and isinstance(suspect.bad, torch.Tensor):
        where = suspect.bad.nonzero()
        count = len(where)
        where = where[:MAX_ELEMENTS]
        values = tuple(suspect.tensor[tuple(where.unbind(1))].reshape(-1).tolist())
        indices = tuple(tuple(position) for position in where.tolist())
    elif suspect.value is not None:
        indices, values = ((),), (suspect.value,)
    return Broken(
        contract=contract.name,
        argument=suspect.argument,
        allowed=suspect.allowed,
        indices=indices,
        values=values,
        count=count,
        part=suspect.part,
        note=suspect.note() if callable(suspect.note) else suspect.note,
        fault=contract.fault,
    )
