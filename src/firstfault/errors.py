"""Every exception that firstfault raises.

Exception
├── FirstFaultError            firstfault itself could not go on            exit code 3
│   └── UsageError             the input can't be used; nothing was lost     exit code 2
└── ValueError
    └── ContractError          an operator's arguments break its contract
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class FirstFaultError(Exception):
    """Something inside firstfault failed. The message says what, with the values, then what to do."""

    exit_code = 3


class UsageError(FirstFaultError):
    """The input can't be used: a missing script, an unknown case, a damaged file, an unwritable folder.

    The message is one line: what is wrong, then what to do.
    """

    exit_code = 2


class ContractError(ValueError):
    """The arguments of an operator break a rule that its schema doesn't state.

    Attributes:
        operator: the operator or check, e.g. ``"aten.nll_loss_forward"`` or ``"class_targets"``.
        argument: the name of the argument at fault, e.g. ``"target"``.
        allowed: what the contract allows, in words, e.g. ``"[0, 4) or -100"``.
        elements: the first elements at fault, as ``(index, value)`` pairs; ``index`` is a tuple of ints.
    """

    def __init__(
        self,
        message: str,
        *,
        operator: str,
        argument: str,
        allowed: str,
        elements: Sequence[tuple[tuple[int, ...], Any]] = (),
    ) -> None:
        super().__init__(message)
        self.operator = operator
        self.argument = argument
        self.allowed = allowed
        self.elements = tuple(elements)
