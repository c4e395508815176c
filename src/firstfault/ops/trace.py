"""The operators of a trial, in the order in which they ran, with the user's line and the module of each.

A trace is a dispatch mode (torch/utils/_python_dispatch.py): it sees every aten operator below autograd, forward and
backward. Backward operators are tied to the forward line by autograd's sequence numbers.
"""

from __future__ import annotations

import sys
import types
from collections import deque
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from firstfault.ops import compat
from firstfault.record.frames import owner_of

MAX_RECORDS = 20_000  # operators of one batch that are kept with their tensors
_MAX_LINES = 200_000  # forward lines by autograd sequence number
_MAX_DEPTH = 200  # frames that are looked through for the user's line

Place = tuple[types.CodeType, int]


class Record:
    """One operator call. Arguments and results are kept alive, so that a storage's address stays its own."""

    __slots__ = ("args", "kwargs", "module", "operator", "place", "result", "sequence")

    def __init__(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], place: Place | None, module: str | None, sequence: int | None) -> None:
        self.operator = operator
        self.args = args
        self.kwargs = kwargs
        self.place = place
        self.module = module
        self.sequence = sequence
        self.result: Any = None

    @property
    def name(self) -> str:
        """``'aten.nll_loss_forward'``: namespace and operator, without the overload."""
        return name_of(self.operator)


def name_of(operator: Any) -> str:
    return ".".join(str(operator).split(".")[:2])


class Trace(TorchDispatchMode):
    """Records operators while it is entered.

    ``check`` is called with each operator's record before it runs; ``raised`` is the last operator that raised, with
    its exception. ``synchronize`` is called after each operator, to make a device's errors surface where they belong.
    """

    def __init__(self, *, check: Any = None, synchronize: Any = None) -> None:
        super().__init__()
        self.records: deque[Record] = deque(maxlen=MAX_RECORDS)
        self.raised: tuple[Record, BaseException] | None = None
        self.forward_places: dict[int, tuple[Place | None, str]] = {}
        self._check = check
        self._synchronize = synchronize

    def restart(self) -> None:
        """Forget the operators so far: a new batch begins. Forward lines stay."""
        self.records.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        node = compat.current_autograd_node()
        place, module = user_place()
        sequence = None if node is None else compat.sequence_number(node)
        record = Record(func, args, kwargs, place, module, sequence)
        if node is None and len(self.forward_places) < _MAX_LINES:
            self.forward_places.setdefault(compat.next_sequence_number() - 1, (place, record.name))
        self.records.append(record)
        if self._check is not None:
            self._check(record)
        try:
            record.result = func(*args, **kwargs)
            if self._synchronize is not None:
                self._synchronize()
        except BaseException as error:
            self.raised = (record, error)
            raise
        return record.result

    def forward_of(self, record: Record) -> tuple[Place | None, str] | None:
        """The user's line and operator of the forward that a backward operator belongs to."""
        return None if record.sequence is None else self.forward_places.get(record.sequence)


def user_place() -> tuple[Place | None, str | None]:
    """The innermost line of the user's own code that is running, and the module in progress around it."""
    frame: types.FrameType | None = sys._getframe(2)
    module: Any = None
    for _ in range(_MAX_DEPTH):
        if frame is None:
            break
        code = frame.f_code
        if module is None and code.co_name == "_call_impl":
            module = frame.f_locals.get("self")
        elif owner_of(code.co_filename) == "user":
            return (code, frame.f_lineno), type(module).__name__ if isinstance(module, torch.nn.Module) else None
        frame = frame.f_back
    return None, None


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors of an argument or a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    return []
