"""The operators of a trial, in the order in which they ran, with the user's line and the module of each.

A trace is a dispatch mode (torch/utils/_python_dispatch.py, torch 2.13): it sees every aten operator below autograd,
forward and backward. A backward operator is tied to the line of its forward by autograd's sequence numbers: the node
that will run backward is made, and numbered, just before its forward operator is dispatched.

Nothing is described while the script runs; a record only holds on to what a description would need.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from firstfault.case.schema import Frame
from firstfault.ops import compat
from firstfault.record.frames import frame_of, owner_of

MAX_RECORDS = 20_000  # operators of one batch; a large model's step has some thousands
MAX_KEPT_BYTES = 2**30  # results that records keep alive; the oldest records go first
SNAPSHOT_ELEMENTS = 2**16  # a tensor up to this size is copied before an operator changes it in place
_MAX_LINES = 200_000  # forward operators whose line is known to backward
_MAX_CHAINS = 50_000  # modules whose parents are known
# Operators that fill fresh memory: what stood there before is not worth a copy.
_OVERWRITES = frozenset(
    {"copy_", "set_", "resize_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_"}
)
_TYPED_IN = ("<stdin>", "<ipython", "<console>")  # the only code without a file that is the user's

Place = tuple[types.CodeType, int]  # code and the byte offset of the instruction in progress
Step = tuple["Place | None", str, Any]  # a forward operator: where, its name, the module in progress


class Facts(NamedTuple):
    """What is known of an operator before it is called."""

    name: str
    writes: tuple[tuple[int, str], ...]  # arguments that it changes: position (or -1) and name
    makes: bool  # whether its results are new memory rather than views
    keeps_old: bool  # whether old values of what it changes matter


class Record:
    """One operator call. Arguments and results are kept alive, so that an address stays one tensor's own.

    ``written`` holds (tensor, its version before, a copy of its values before or None) for what the call changed.
    ``sequence`` numbers the autograd node whose backward made the call, ``made_node`` the node that will run its backward.
    """

    __slots__ = (
        "args",
        "facts",
        "kwargs",
        "made_node",
        "module",
        "number",
        "operator",
        "place",
        "result",
        "sequence",
        "written",
    )

    def __init__(
        self, number: int, operator: Any, facts: Facts, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.number = number
        self.operator = operator
        self.facts = facts
        self.args = args
        self.kwargs = kwargs
        self.place: Place | None = None
        self.module: Any = None
        self.sequence: int | None = None
        self.made_node: int | None = None
        self.result: Any = None
        self.written: tuple[tuple[torch.Tensor, int, torch.Tensor | None], ...] = ()

    @property
    def name(self) -> str:
        """``'aten.nll_loss_forward'``: namespace and operator, without the overload."""
        return self.facts.name


class Trace(TorchDispatchMode):
    """Records operators while it is entered.

    Args:
        check: called with each record before its operator runs.
        after: called with each record after its operator ran, e.g. to wait for the device; what it raises counts as
            raised by the operator.
        keep: False keeps no tensors, for failures that more memory would change.

    While it is entered, ``torch.compile``d code runs as it was written: a compiled region has no lines of its own.
    ``raised`` is the last operator that raised, with its exception; ``count`` the number of operators so far, which
    numbers the records from 1.
    """

    supports_higher_order_operators = True  # else torch refuses to run them under a mode

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled while a trace runs, so its handler needs no guard (which would import torch._dynamo)."""
        return False

    def __init__(
        self,
        *,
        check: Callable[[Record], None] | None = None,
        after: Callable[[Record], None] | None = None,
        keep: bool = True,
    ) -> None:
        super().__init__()
        self.records: deque[Record] = deque()
        self.count = 0
        self.raised: tuple[Record, BaseException] | None = None
        self._check = check
        self._after = after
        self._keep = keep
        self._kept: deque[int] = deque()  # bytes of each record
        self._kept_bytes = 0
        self._forward: dict[int, Step] = {}
        self._ran_backward: dict[int, tuple[int, Place | None]] = {}
        self._chains: dict[int, tuple[Any, ...]] = {}
        self._names: dict[int, str] = {}
        self._newest = compat.next_sequence_number() - 1
        self._thread = threading.get_ident()
        self._task: tuple[int, Place | None] = (-1, None)

    def __enter__(self) -> Trace:
        self._eager = compat.eagerly()
        self._eager.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._eager.__exit__(*error)

    def restart(self) -> None:
        """Forget the operators so far: a new batch begins. The lines of forward operators stay."""
        self.records.clear()
        self._kept.clear()
        self._kept_bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        facts = _FACTS.get(func) or facts_of(func)
        self.count += 1
        record = Record(self.count, func, facts, args, kwargs)
        node = compat.current_autograd_node()
        record.place, record.module = self._surroundings(sys._getframe().f_back, node)
        if node is not None:
            self._in_backward(record, node)
        newest = compat.next_sequence_number() - 1
        if newest != self._newest:
            self._numbered(record, newest)
        if facts.writes:
            record.written = _before(record, facts)
        if self._check is not None:
            self._check(record)
        self.records.append(record)
        try:
            record.result = func(*args, **kwargs)
            if self._after is not None:
                self._after(record)
        except BaseException as error:
            self.raised = (record, error)
            self._kept.append(0)
            raise
        result = record.result
        self._account(record)
        return result

    # ---- memory ---------------------------------------------------------------------------------------------------

    def _account(self, record: Record) -> None:
        """Count the new memory that a record holds, and let the oldest records go when there is too much of it."""
        if not self._keep:
            record.args, record.kwargs, record.result, record.written = (), {}, None, ()
        size = 0
        if record.facts.makes and record.result is not None:
            results = record.result if isinstance(record.result, (tuple, list)) else (record.result,)
            size = sum(
                [
                    each.nbytes
                    for each in results
                    if isinstance(each, torch.Tensor) and each.layout == torch.strided
                ]
            )
        self._kept.append(size)
        self._kept_bytes += size
        while self._kept_bytes > MAX_KEPT_BYTES or len(self.records) > MAX_RECORDS:
            if len(self.records) <= 1:
                break
            self.records.popleft()
            self._kept_bytes -= self._kept.popleft()

    # ---- lines and modules ----------------------------------------------------------------------------------------

    def _surroundings(self, frame: types.FrameType | None, node: Any) -> tuple[Place | None, Any]:
        """The innermost line of the user's own code that is running, and the innermost module whose call is."""
        place: Place | None = None
        while frame is not None:
            code = frame.f_code
            if code is _ENGINE and node is not None:
                return place or self._line_of_backward(frame), None
            if place is None and (_USERS.get(code.co_filename) or is_user(code.co_filename)):
                place = (code, frame.f_lasti)
            elif code is _MODULE_CALL:
                module = frame.f_locals["self"]
                if id(module) not in self._chains:
                    self._chain(module, frame)
                if place is None:
                    place = user_place(frame)
                return place, module
            frame = frame.f_back
        if node is not None and place is None:
            place = self._line_of_backward(None)
        return place, None

    def _chain(self, module: Any, frame: types.FrameType | None) -> None:
        """Remember the modules around one, outermost first; names are looked up in the outermost when asked for."""
        modules = []
        while frame is not None:
            if frame.f_code is _MODULE_CALL:
                modules.append(frame.f_locals["self"])
            frame = frame.f_back
        if len(self._chains) < _MAX_CHAINS:
            self._chains[id(module)] = tuple(reversed(modules))

    def module_name(self, module: Any) -> str | None:
        """``'path (Class)'`` of a module within the outermost one, as :func:`modules_in_progress` names it."""
        if module is None:
            return None
        if id(module) not in self._names:
            outermost = self._chains.get(id(module), (module,))[0]
            path = next((name for name, each in outermost.named_modules() if each is module), "")
            self._names[id(module)] = f"{path or 'model'} ({type(module).__name__})"
        return self._names[id(module)]

    def outermost_modules(self) -> list[Any]:
        """The modules that the script called itself, each once."""
        return list({id(chain[0]): chain[0] for chain in self._chains.values()}.values())

    # ---- autograd -------------------------------------------------------------------------------------------------

    def _numbered(self, record: Record, newest: int) -> None:
        """A node was made since the last operator: it is this operator's. Numbers are counted in each thread apart."""
        if threading.get_ident() != self._thread:
            return
        self._newest = record.made_node = newest
        step: Step = (record.place, record.name, record.module)
        if record.sequence is not None:  # made in backward, for a second derivative
            step = self._forward.get(record.sequence, step)
        self._forward[newest] = step
        if len(self._forward) > _MAX_LINES:
            del self._forward[next(iter(self._forward))]

    def _in_backward(self, record: Record, node: Any) -> None:
        sequence = record.sequence = compat.sequence_number(node)
        task = compat.current_graph_task()
        ran = self._ran_backward.get(sequence)
        if ran is None or ran[0] != task:
            self._line_of_backward(None)
            self._ran_backward[sequence] = (task, self._task[1] or record.place)
            if len(self._ran_backward) > _MAX_LINES:
                del self._ran_backward[next(iter(self._ran_backward))]
        if record.module is None:
            record.module = self._forward.get(sequence, (None, "", None))[2]

    def _line_of_backward(self, engine: types.FrameType | None) -> Place | None:
        """The line that started this backward pass; on a device it runs in a thread of its own, so all are looked at."""
        task = compat.current_graph_task()
        if self._task[0] != task:
            candidates = [engine] if engine is not None else list(sys._current_frames().values())
            places = [place for frame in candidates if (place := _caller_of_engine(frame)) is not None]
            self._task = (task, places[0] if places else None)
        return self._task[1]

    def forward_of(self, sequence: int | None) -> Step | None:
        """The forward operator whose backward node has this sequence number: its line, name and module."""
        return None if sequence is None else self._forward.get(sequence)

    def ran_backward(self, sequence: int) -> tuple[int, Place | None]:
        """The last backward pass that ran the node with this sequence number, and its line; (-1, None) when none did."""
        return self._ran_backward.get(sequence, (-1, None))

    @property
    def last_backward(self) -> int:
        """The number of the last backward pass that ran an operator."""
        return self._task[0]


# ---- operators -----------------------------------------------------------------------------------------------------


_FACTS: dict[Any, Facts] = {}


def facts_of(operator: Any) -> Facts:
    """An operator's name and what it does to memory, read off its schema once."""
    schema = compat.schema_of(operator)
    if schema is None:
        facts = Facts(str(operator), (), True, False)
    else:
        name = ".".join(str(operator).split(".")[:2])
        writes = tuple(
            (-1 if argument.kwarg_only else position, argument.name)
            for position, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        makes = any(result.alias_info is None for result in schema.returns)
        out = any(position == -1 for position, _ in writes)
        facts = Facts(
            name, writes, makes, bool(writes) and not out and name.split(".")[-1] not in _OVERWRITES
        )
    _FACTS[operator] = facts
    return facts


def _before(record: Record, facts: Facts) -> tuple[tuple[torch.Tensor, int, torch.Tensor | None], ...]:
    """What a call is about to change: each tensor, its version, and its values where they are few."""
    args, found = record.args, []
    for position, name in facts.writes:
        value = args[position] if 0 <= position < len(args) else record.kwargs.get(name)
        if isinstance(value, torch.Tensor):
            copy = None
            if facts.keeps_old and value.layout == torch.strided and value.numel() <= SNAPSHOT_ELEMENTS:
                with contextlib.suppress(RuntimeError):  # a dead device, or a tensor that has no values
                    copy = value.detach().clone()
            found.append((value, compat.version_of(value), copy))
        elif isinstance(value, (list, tuple)):
            found.extend(
                (each, compat.version_of(each), None) for each in value if isinstance(each, torch.Tensor)
            )
    return tuple(found)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors of an argument or a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    return []


# ---- places --------------------------------------------------------------------------------------------------------


_MODULE_CALL = compat.module_call_code()
_ENGINE = compat.engine_code()
_USERS: dict[str, bool] = {}


def is_user(filename: str) -> bool:
    """Whether a file is the user's own; code that was made up at run time (torch.fx, dataclasses) is nobody's."""
    found = owner_of(filename) == "user" and (not filename.startswith("<") or filename.startswith(_TYPED_IN))
    _USERS[filename] = found
    return found


def user_place(frame: types.FrameType | None) -> Place | None:
    """The innermost line of the user's own code, from a frame outwards."""
    while frame is not None:
        if is_user(frame.f_code.co_filename):
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    return None


def _caller_of_engine(frame: types.FrameType | None) -> Place | None:
    while frame is not None:
        if frame.f_code is _ENGINE:
            return user_place(frame)
        frame = frame.f_back
    return None


def frame_at(place: Place | None) -> Frame | None:
    """A place as a frame of a finding."""
    if place is None:
        return None
    code, instruction = place
    return frame_of(code, line_at(code, instruction))


def line_at(code: types.CodeType, instruction: int) -> int:
    """The source line of an instruction (PEP 657: two bytes an instruction)."""
    if instruction < 0:
        return code.co_firstlineno
    for number, position in enumerate(code.co_positions()):
        if number == instruction // 2:
            return position[0] or code.co_firstlineno
    return code.co_firstlineno
