"""The instrument that finds where a failure began: the operator, its arguments, the lines, the elements at fault.

Entered around a trial's script, it writes ``locate.json`` (a :class:`firstfault.case.findings.Locate`) into the trial's
folder when the failure comes.

On the host an operator raises where it runs, so its contracts are checked afterwards. A device reports late and can't be
read any more once an assertion has fired, so there contracts are checked, and elements followed back, before the launch.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from firstfault.case.findings import Argument, Element, Locate, Operation, Violation
from firstfault.case.schema import Frame
from firstfault.case.store import write_atomically
from firstfault.ops import compat, contracts
from firstfault.ops.backward import Changed, Freed, autograd_fault
from firstfault.ops.calls import Call, call_in_progress
from firstfault.ops.late import BLOCKING, reports_late
from firstfault.ops.memory import has_address
from firstfault.ops.provenance import Origins
from firstfault.ops.samples import Samples
from firstfault.ops.trace import Record, Trace, frame_at, tensors_in
from firstfault.record.failure import first_of, message_of, modules_in_progress, type_name
from firstfault.record.frames import frames_of, innermost_user_frame
from firstfault.trial import events

TRAIL = 12  # operators around the failure that a finding keeps
MAX_VALUE = 120  # characters of a plain argument
MAX_TENSORS = 16  # of a list argument that are described
# Operators that only report what an earlier one found out.
_REPORTERS = frozenset({"aten._linalg_check_errors", "aten._assert_async", "aten._assert_scalar"})
# Variables that make launches wait, so that an error comes from the operator that raised it.
_WAITING = [name for names in BLOCKING.values() for name in names]
_MISFIT = re.compile(
    r"same device|same dtype|expected .* (?:dtype|type|scalar type|device)|to have (?:the same|one of)",
    re.IGNORECASE,
)


@contextlib.contextmanager
def locate_instrument(folder: Path, plan: Any) -> Iterator[None]:
    """Trace the operators of a trial and write what was found at its failure."""
    with _locating(Finder(folder)):
        yield


@contextlib.contextmanager
def synchronized_instrument(folder: Path, plan: Any) -> Iterator[None]:
    """As above, and wait for the device after each operator, so that it reports where the failure happened."""
    with _locating(Finder(folder, synchronize=True)):
        yield


@contextlib.contextmanager
def light_instrument(folder: Path, plan: Any) -> Iterator[None]:
    """As the first, without keeping a tensor: for failures that a little more memory would change."""
    with _locating(Finder(folder, keep=False)):
        yield


@contextlib.contextmanager
def dying_instrument(folder: Path, plan: Any) -> Iterator[None]:
    """For failures that end the process without an exception: the finding is on disk before each operator runs.

    Each operator costs some 50 µs more, and contracts are checked on the host too, before the launch.
    """
    with _locating(Finder(folder, dying=True)):
        yield


@contextlib.contextmanager
def _locating(finder: Finder) -> Iterator[None]:
    stop = events.listen(finder)
    try:
        with finder.trace:
            yield
    finally:
        stop()


class Finder:
    """Listens to the trial's events while the trace runs."""

    def __init__(
        self, folder: Path, *, synchronize: bool = False, keep: bool = True, dying: bool = False
    ) -> None:
        self.folder = folder
        self.samples = Samples()
        self.waits = synchronize or any(os.environ.get(name, "0") != "0" for name in _WAITING)
        notes = {
            "synchronised": synchronize,
            "no tensors kept": not keep,
            "written before each operator": dying,
        }
        self.method = ", ".join(["operator trace", *(note for note, holds in notes.items() if holds)])
        self.violated: list[tuple[Record, Locate]] = []
        self.trace = Trace(
            check=self._write_first if dying else self._check,
            after=wait_for if synchronize else None,
            keep=keep,
        )

    # ---- the trial's events ---------------------------------------------------------------------------------------

    def sample_fetched(self, position: int, sample: Any, value: Any) -> None:
        if position == 0:
            self.trace.restart()
            self.samples, self.violated = Samples(), []
        self.samples.fetched(position, sample, value, self.trace.count)

    def batch_handed_out(self, batch: Any, samples: Sequence[Any] | None) -> None:
        self.samples.handed_out(batch, samples, self.trace.count)

    def failed(self, error: BaseException) -> None:
        with compat.without_modes(), torch.no_grad():
            try:
                finding = self.finding(first_of(error))
            except Exception as broken:  # the trial's outcome counts even where no finding comes of it
                finding = Locate(
                    began=_user_frame(error),
                    not_done=f"the trace could not be read: {type(broken).__name__}: {broken}",
                    certain=False,
                )
        write_atomically(self.folder / "locate.json", msgspec.json.encode(finding))

    def _check(self, record: Record) -> None:
        """Before a launch on a device that reports late: what breaks a contract is followed back while it can be read."""
        if not contracts.has_contract(record.name) or not _on_device(record):
            return
        with (
            compat.without_modes(),
            torch.no_grad(),
            contextlib.suppress(Exception),
        ):  # the trial's outcome counts
            broken = contracts.check(record.name, contracts.bind(record.operator, record.args, record.kwargs))
            if broken:
                wait_for(record)  # what is read next is read from another thread, on another stream
                self.violated.append((record, self._of_operator(record, None, broken)))

    def _write_first(self, record: Record) -> None:
        """Before any operator: write down which it is, with what breaks its contract."""
        with compat.without_modes(), torch.no_grad():
            broken = contracts.check(record.name, contracts.bind(record.operator, record.args, record.kwargs))
            finding = self._of_operator(record, None, broken) if broken else Locate(operator=record.name)
            finding = msgspec.structs.replace(
                finding,
                began=frame_at(record.place),
                module=self.trace.module_name(record.module),
                method=self.method,
            )
        (self.folder / "locate.json").write_bytes(msgspec.json.encode(finding))

    # ---- the finding ----------------------------------------------------------------------------------------------

    def finding(self, error: BaseException) -> Locate:
        """Where an error began, from what was traced up to now."""
        raised = self.trace.raised
        record = raised[0] if raised is not None and raised[1] is error else None
        early = next((found for each, found in self.violated if each is record), None)
        late = early is None and reports_late(f"{type_name(type(error))}: {message_of(error)}")
        if late and self.violated:
            early = self.violated[0][1]
        if early is not None:
            finding = early
        elif record is not None:
            finding = self._of_operator(self._reported(record), error, None)
        elif (fault := autograd_fault(error, self.trace)) is not None:
            finding = self._of_autograd(fault, error)
        else:
            finding = self._of_call(call_in_progress(error.__traceback__), error)
        module = _innermost_module(error) if early is None else None
        return msgspec.structs.replace(
            finding,
            began=finding.began or _user_frame(error),
            module=module or finding.module,
            trail=tuple(self._operation(each) for each in self._trail()),
            method=self.method,
            certain=early is not None or not late or (self.waits and record is not None),
        )

    def _of_operator(
        self, record: Record, error: BaseException | None, broken: Sequence[contracts.Broken] | None
    ) -> Locate:
        """An operator that raised, or that breaks a contract and is about to be launched."""
        bound = contracts.bind(record.operator, record.args, record.kwargs)
        if broken is None:
            broken = contracts.check(record.name, bound) if contracts.has_contract(record.name) else ()
        forward = self.trace.forward_of(record.sequence)
        stray = _stray(record, broken, error)
        maker = self._maker(stray, record) if stray is not None else None
        return Locate(
            operator=record.name,
            began=frame_at(record.place),
            module=self.trace.module_name(record.module),
            forward=frame_at(forward[0]) if forward is not None else None,
            arguments=tuple(self._arguments(bound, record)),
            violations=compat.undisturbed(lambda: tuple(self._violations(record, bound, broken)))
            if broken
            else (),
            made_at=frame_at(maker.place) if maker is not None else None,
        )

    def _of_autograd(self, fault: Changed | Freed, error: BaseException) -> Locate:
        forward = fault.forward
        line = frame_at(forward[0]) if forward is not None else None
        module = self.trace.module_name(forward[2]) if forward is not None else None
        if isinstance(fault, Freed):
            operator = forward[1] if forward is not None else None
            return Locate(
                operator=operator,
                began=_user_frame(error),
                forward=line,
                module=module,
                changed_at=frame_at(fault.freed_at),
            )
        change = fault.change
        if change is None:
            return Locate(operator=forward[1] if forward is not None else None, forward=line, module=module)
        changed_at = frame_at(change.place)
        bound = contracts.bind(change.operator, change.args, change.kwargs)
        return Locate(
            operator=change.name,
            began=changed_at,
            changed_at=changed_at,
            forward=line,
            module=self.trace.module_name(change.module) or module,
            arguments=tuple(self._arguments(bound, change)),
        )

    def _of_call(self, call: Call | None, error: BaseException) -> Locate:
        if call is None:
            return Locate()
        return Locate(operator=call.operator, arguments=tuple(_flat_arguments(call.arguments)))

    def _reported(self, record: Record) -> Record:
        """The operator whose failure another one only reports."""
        if record.name not in _REPORTERS:
            return record
        earlier = [
            each for each in self.trace.records if each.number < record.number and each.name not in _REPORTERS
        ]
        return earlier[-1] if earlier else record

    # ---- its parts ------------------------------------------------------------------------------------------------

    def _violations(
        self, record: Record, bound: dict[str, Any], broken: Sequence[contracts.Broken]
    ) -> Iterator[Violation]:
        origins = Origins(self.trace.records, self.samples)
        for breach in broken:
            tensor = bound.get(breach.argument)
            if breach.part is not None and isinstance(tensor, (list, tuple)):
                tensor = tensor[breach.part]
            elements = [
                _followed(origins, tensor, index, value, record.number)
                for index, value in zip(breach.indices, breach.values, strict=True)
            ]
            yield Violation(
                contract=breach.contract,
                argument=breach.argument,
                allowed=breach.allowed,
                elements=tuple(elements),
                count=breach.count,
                note=breach.note,
                fault=breach.fault,
            )

    def _arguments(self, bound: dict[str, Any], record: Record) -> Iterator[Argument]:
        for argument, tensor in _flat_with_tensors(bound.items()):
            if tensor is None:
                yield argument
            else:
                yield msgspec.structs.replace(argument, origin=self._origin(tensor, record))

    def _origin(self, tensor: torch.Tensor, record: Record) -> str | None:
        """What a tensor is, in words: a leaf of the batch, a parameter, or some operator's result."""
        leaf = next((leaf for leaf in self.samples.leaves if _same_memory(leaf.tensor, tensor)), None)
        if leaf is not None:
            return f"batch{leaf.path}"
        for module in self.trace.outermost_modules():
            for kind, named in (("parameter", module.named_parameters()), ("buffer", module.named_buffers())):
                for name, each in named:
                    if _same_memory(each, tensor):
                        return f"{kind} {name}"
        maker = self._maker(tensor, record)
        if maker is None:
            return None
        frame = frame_at(maker.place)
        return maker.name if frame is None else f"{maker.name} at {Path(frame.file).name}:{frame.line}"

    def _maker(self, tensor: torch.Tensor, record: Record) -> Record | None:
        """The operator that made a tensor's memory."""
        for each in reversed(self.trace.records):
            if (
                each.number < record.number
                and each.facts.makes
                and any(_same_memory(made, tensor) for made in tensors_in(each.result))
            ):
                return each
        return None

    def _trail(self) -> list[Record]:
        """The last operators of the user's code, oldest first."""
        placed = (record for record in reversed(self.trace.records) if record.place is not None)
        return list(itertools.islice(placed, TRAIL))[::-1]

    def _operation(self, record: Record) -> Operation:
        return Operation(
            operator=record.name,
            shapes=tuple(
                _text(tensor) for tensor in tensors_in([*record.args, *record.kwargs.values()])[:MAX_TENSORS]
            ),
            line=frame_at(record.place),
            module=self.trace.module_name(record.module),
        )


# ---- devices --------------------------------------------------------------------------------------------------------


def wait_for(record: Record) -> None:
    """Wait until the devices of an operator's tensors have done what they were given; their errors surface here."""
    devices = {tensor.device for tensor in tensors_in([*record.args, *record.kwargs.values(), record.result])}
    for device in devices:
        if device.type not in ("cpu", "meta"):
            torch.get_device_module(device).synchronize()


def _on_device(record: Record) -> bool:
    return any(
        tensor.device.type not in ("cpu", "meta")
        for tensor in tensors_in([*record.args, *record.kwargs.values()])
    )


# ---- descriptions ---------------------------------------------------------------------------------------------------


def _followed(origins: Origins, tensor: Any, index: tuple[int, ...], value: Any, before: int) -> Element:
    """An element at fault with its origin; what can't be followed is at least named."""
    if isinstance(tensor, torch.Tensor):
        with contextlib.suppress(Exception):
            return origins.element(tensor, index, value, before)
    return Element(index=index, value=value)


def _innermost_module(error: BaseException) -> str | None:
    modules = modules_in_progress(error.__traceback__)
    return modules[-1] if modules else None


def _user_frame(error: BaseException) -> Frame | None:
    return innermost_user_frame(frames_of(error.__traceback__))


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    if not has_address(one) or not has_address(other) or one.device != other.device:
        return False
    pointer = one.untyped_storage().data_ptr()
    return pointer != 0 and pointer == other.untyped_storage().data_ptr()


def _stray(
    record: Record, broken: Sequence[contracts.Broken], error: BaseException | None
) -> torch.Tensor | None:
    """The tensor argument that doesn't fit the others, where the failure is about devices or dtypes."""
    tensors = tensors_in([*record.args, *record.kwargs.values()])
    about = broken[0].argument if broken and not broken[0].indices else None
    if about is not None:
        found = tensors_in(contracts.bind(record.operator, record.args, record.kwargs).get(about))
        return found[broken[0].part or 0] if found else None
    if error is None or not _MISFIT.search(str(error)):
        return None
    for trait in (lambda each: each.device, lambda each: each.dtype):
        kinds = [trait(tensor) for tensor in tensors if tensor.ndim]
        if len(set(kinds)) > 1:
            rarest = min(dict.fromkeys(kinds), key=kinds.count)
            return next(tensor for tensor in tensors if tensor.ndim and trait(tensor) == rarest)
    return None


def _flat_arguments(named: Any) -> Iterator[Argument]:
    for argument, _ in _flat_with_tensors(named):
        yield argument


def _flat_with_tensors(named: Any) -> Iterator[tuple[Argument, torch.Tensor | None]]:
    for name, value in named:
        tensors = tensors_in(value)
        if isinstance(value, torch.Tensor):
            yield _described(name, value), value
        elif tensors:
            yield from (
                (_described(f"{name}[{number}]", tensor), tensor)
                for number, tensor in enumerate(tensors[:MAX_TENSORS])
            )
        else:
            yield Argument(name=name, value=repr(value)[:MAX_VALUE]), None


def _described(name: str, tensor: torch.Tensor) -> Argument:
    strided = has_address(tensor)
    minimum = maximum = None
    if strided and tensor.numel() and not tensor.is_complex():
        with contextlib.suppress(RuntimeError):  # a dtype without an order, or a device that is dead
            low, high = torch.aminmax(tensor.detach())
            minimum, maximum = float(low), float(high)
    return Argument(
        name=name,
        shape=tuple(tensor.shape) if not tensor.is_nested else None,
        dtype=str(tensor.dtype).removeprefix("torch."),
        device=str(tensor.device),
        stride=tuple(tensor.stride()) if strided else None,
        minimum=minimum,
        maximum=maximum,
    )


def _text(tensor: torch.Tensor) -> str:
    shape = "?" if tensor.is_nested else ", ".join(str(extent) for extent in tensor.shape)
    return f"{str(tensor.dtype).removeprefix('torch.')}[{shape}]"
