"""What operators demand of their arguments that their schemas don't say.

A contract is a small function that names the elements of a call's arguments which an operator doesn't allow. It is
written from the assertion in the CUDA kernel and from what the CPU kernel refuses; where the two differ it takes the
back end that is asked about. ``docs/contracts.md`` lists them and tells how to add one.

Contracts never run the operator and never trip an assertion themselves. For arguments that keep its contracts a call is
waited for once; operators without a contract cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import torch

from firstfault.ops import compat
from firstfault.ops.contracts import embeddings, indexing, losses, sampling
from firstfault.ops.contracts.contract import MAX_ELEMENTS, Backend, Broken, Contract, Suspect, found

__all__ = [
    "MAX_ELEMENTS",
    "Backend",
    "Broken",
    "Contract",
    "all_contracts",
    "backend_of",
    "bind",
    "check",
    "check_portable",
    "contracts_of",
    "has_contract",
]

_FAMILIES = (indexing, losses, embeddings, sampling)
_LIKE_CUDA = frozenset(
    {"cuda", "xpu"}
)  # device types whose kernels have CUDA's assertions; ROCm's is called cuda


def all_contracts() -> Iterator[Contract]:
    for family in _FAMILIES:
        yield from family.CONTRACTS


def _by_operator(contracts: Iterable[Contract]) -> dict[str, tuple[Contract, ...]]:
    table: dict[str, tuple[Contract, ...]] = {}
    for contract in contracts:
        for name in contract.operators:
            table[name] = (*table.get(name, ()), contract)
    return table


_CONTRACTS: Mapping[str, tuple[Contract, ...]] = _by_operator(all_contracts())


def base_name(operator: str) -> str:
    """``'aten.gather.default'`` and ``'aten.gather'`` are the operator ``'aten.gather'``; in-place forms are their own."""
    return ".".join(operator.split(".")[:2])


def contracts_of(operator: str) -> tuple[Contract, ...]:
    return _CONTRACTS.get(base_name(operator), ())


def has_contract(operator: str) -> bool:
    """Whether any contract speaks of the operator; asking costs no synchronisation."""
    return base_name(operator) in _CONTRACTS


def bind(operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """A call's arguments by their names in the operator's schema, defaults filled in."""
    bound: dict[str, Any] = {}
    for position, argument in enumerate(compat.schema_of(operator).arguments):
        if position < len(args) and not argument.kwarg_only:
            bound[argument.name] = args[position]
        elif argument.name in kwargs:
            bound[argument.name] = kwargs[argument.name]
        elif argument.has_default_value():
            bound[argument.name] = argument.default_value
    return bound


def backend_of(arguments: Mapping[str, Any]) -> Backend:
    """Whose rules a call follows: CUDA's when any tensor is on such a device, else the CPU's, the stricter ones."""
    return "cuda" if any(tensor.device.type in _LIKE_CUDA for tensor in _tensors(arguments)) else "cpu"


def check(
    operator: str, arguments: Mapping[str, Any], *, backend: Backend | None = None
) -> tuple[Broken, ...]:
    """All contracts of an operator that the arguments break, with the first elements at fault.

    ``arguments`` are bound by the schema's names and may live on any device. ``backend`` says whose rules to judge by,
    by default those of the device that the arguments are on. What can't be judged (arguments of another shape or type
    than the operator takes, tensors without values) says nothing: the operator's own error tells.
    """
    contracts = contracts_of(operator)
    if not contracts or not all(compat.has_values(tensor) for tensor in _tensors(arguments)):
        return ()
    whose = backend or backend_of(arguments)
    with torch.no_grad():
        try:
            return found([(each, suspect) for each in contracts for suspect in each.rule(arguments, whose)])
        except (KeyError, IndexError, TypeError, RuntimeError, AttributeError):
            return ()


def check_portable(operator: str, arguments: Mapping[str, Any]) -> tuple[Broken, ...]:
    """What the CPU or CUDA refuses; where only one of them does, the note says so. Waits for a device twice."""
    cpu, cuda = (check(operator, arguments, backend=backend) for backend in ("cpu", "cuda"))
    rules = [{key for _, key in _keyed(broken)} for broken in (cpu, cuda)]
    found = [
        _noted(each, None if key in rules[1] else "refused on the CPU only") for each, key in _keyed(cpu)
    ]
    return tuple(
        found + [_noted(each, "refused on CUDA only") for each, key in _keyed(cuda) if key not in rules[0]]
    )


def _keyed(broken: Iterable[Broken]) -> Iterator[tuple[Broken, tuple[Any, ...]]]:
    return ((each, (each.contract, each.argument, each.part)) for each in broken)


def _noted(broken: Broken, note: str | None) -> Broken:
    notes = "; ".join(each for each in (broken.note, note) if each)
    return msgspec.structs.replace(broken, note=notes or None)


def suspects(operator: str, arguments: Mapping[str, Any], backend: Backend) -> list[Suspect]:
    """What the operator's rules suspect, errors and all: for tests of rules."""
    return [suspect for each in contracts_of(operator) for suspect in each.rule(arguments, backend)]


def _tensors(arguments: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    for value in arguments.values():
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (each for each in value if isinstance(each, torch.Tensor))
