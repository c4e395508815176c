"""What operators demand of their arguments that their schemas don't say.

Each contract is a pure function from an operator's arguments to what breaks it. It reads values where they are, reduces
them to one flag on the device, and brings elements to the host only when the flag is set: at most one synchronisation
for arguments that keep the contract.

A contract is registered for the operators that it speaks of, by family: ``indexing``, ``losses``, ``embeddings``,
``sampling``. ``docs/contracts.md`` tells how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from firstfault.ops import compat
from firstfault.ops.contracts import embeddings, indexing, losses, sampling
from firstfault.ops.contracts.contract import Broken, Contract

__all__ = ["Broken", "Contract", "bind", "check", "contracts_of", "has_contract"]

_FAMILIES = (indexing, losses, embeddings, sampling)


def _by_operator() -> dict[str, tuple[Contract, ...]]:
    found: dict[str, tuple[Contract, ...]] = {}
    for family in _FAMILIES:
        for contract in family.CONTRACTS:
            for name in contract.operators:
                found[name] = (*found.get(name, ()), contract)
    return found


_CONTRACTS: Mapping[str, tuple[Contract, ...]] = _by_operator()


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


def check(operator: str, arguments: Mapping[str, Any]) -> tuple[Broken, ...]:
    """All contracts of an operator that the arguments break, with the first elements at fault.

    ``arguments`` are bound by the schema's names. A contract that can't be applied (an argument is missing or has
    another shape than the operator takes) says nothing: the operator's own error tells.
    """
    found: list[Broken] = []
    with torch.no_grad():
        for contract in contracts_of(operator):
            try:
                found.extend(contract.rule(arguments))
            except (KeyError, IndexError, TypeError, RuntimeError, AttributeError):
                continue
    return tuple(found)
