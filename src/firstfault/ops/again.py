"""A recorded operator, run once more on other values.

The arguments that say where (indices, masks, offsets) stay what they were; tensors that say what are stood in for by
the caller's. Everything is computed on the host, and nothing that the first call wrote is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from firstfault.ops import compat
from firstfault.ops.trace import Record, tensors_in

# Arguments that say where to take from, never what.
PLACES = frozenset(
    {"index", "indices", "mask", "condition", "offsets", "batch_sizes", "lengths", "repeats", "offset2bag"}
)
_ON_HOST = frozenset({"dtype", "device", "layout", "pin_memory", "non_blocking"})  # stand-ins bring their own
StandIn = Callable[[str, "int | None", torch.Tensor], torch.Tensor]


def arguments_of(record: Record) -> Iterator[tuple[str, Any]]:
    """The arguments of a call as they were given, by their names in the schema."""
    schema = compat.schema_of(record.operator)
    names = [argument.name for argument in schema.arguments] if schema is not None else []
    yield from zip(names, record.args, strict=False)
    yield from record.kwargs.items()


def parts_of(argument: Any) -> Iterator[tuple[int | None, torch.Tensor]]:
    """The tensors of one argument with their numbers in it; the number is None for an argument that is a tensor."""
    if isinstance(argument, torch.Tensor):
        yield None, argument
    elif isinstance(argument, (list, tuple)):
        yield from ((number, item) for number, item in enumerate(argument) if isinstance(item, torch.Tensor))


def values_of(record: Record) -> list[tuple[str, int | None, torch.Tensor]]:
    """The tensors that say what: each with its argument's name and its number in a list."""
    return [
        (name, part, tensor)
        for name, argument in arguments_of(record)
        if name not in PLACES and name != "out"
        for part, tensor in parts_of(argument)
    ]


def results_of(record: Record) -> list[torch.Tensor]:
    """The tensors that a call wrote: its results, then the arguments that it changed."""
    return [*tensors_in(record.result), *(tensor for tensor, _, _ in record.written)]


def may_run_again(record: Record) -> bool:
    """Whether a second run can do no harm: another library's operator may talk to other processes."""
    return record.name.startswith("aten.")


def run_again(record: Record, stand_in: StandIn) -> list[torch.Tensor | None]:
    """Call the operator on stand-ins; returns tensors in the order of :func:`results_of`.

    ``stand_in(name, part, tensor)`` gives the tensor to take an argument's place; it may be changed by the call.

    Raises:
        Exception: whatever the operator raises on these values.
    """
    changed: dict[tuple[str, int | None], torch.Tensor] = {}
    writes = {name for _, name in record.facts.writes}

    def one(name: str, part: int | None, tensor: torch.Tensor) -> torch.Tensor:
        if name == "out":
            replaced = torch.full_like(tensor, -1, device="cpu")
        elif name in PLACES:
            replaced = tensor.detach().cpu()
        else:
            replaced = stand_in(name, part, tensor)
        if name in writes:
            changed[name, part] = replaced
        return replaced

    def replaced(name: str, argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            return one(name, None, argument)
        if isinstance(argument, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in argument):
            return [
                one(name, part, item) if isinstance(item, torch.Tensor) else item
                for part, item in enumerate(argument)
            ]
        return argument

    given = dict(arguments_of(record))
    positional = list(given)[: len(record.args)]
    args = tuple(replaced(name, given[name]) for name in positional)
    kwargs = {name: replaced(name, value) for name, value in record.kwargs.items() if name not in _ON_HOST}
    operator = record.operator
    if "out" in kwargs:  # stand-ins need not have the dtype of 'out'
        dtype = next((each.dtype for each in tensors_in(list(args))), torch.float64)
        kwargs["out"] = changed["out", None] = torch.full_like(kwargs["out"], -1, dtype=dtype)
    outputs = tensors_in(operator(*args, **kwargs))
    written = [
        changed.get((name, part)) for _, name in record.facts.writes for part, _ in parts_of(given.get(name))
    ]
    return [*outputs, *written]
