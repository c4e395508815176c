"""The instrument that finds where a failure began: the operator, its arguments, the lines, the elements at fault.

Entered around a trial's script, it writes ``locate.json`` (a :class:`firstfault.case.findings.Locate`) into the trial's
folder when the failure comes.
"""

from __future__ import annotations

import contextlib
import re
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from firstfault.case.findings import Argument, Element, Locate, Operation, Violation
from firstfault.case.schema import Frame
from firstfault.case.store import write_atomically
from firstfault.ops import contracts
from firstfault.ops.provenance import Origins, Source
from firstfault.ops.trace import Place, Record, Trace, tensors_in
from firstfault.record.failure import first_of, modules_in_progress
from firstfault.record.frames import frame_of
from firstfault.trial import events

TRAIL = 12  # operators around the failure that a finding keeps
MAX_VALUE = 120  # characters of a plain argument
_MAX_SOURCES = 20_000
_MODIFIED = re.compile(r"modified by an inplace operation: \[[\w.]+ \[?([\d, ]*)\]?\]")


@contextlib.contextmanager
def locate_instrument(folder: Path, plan: Any) -> Iterator[None]:
    """Trace the operators of a trial and write what was found at its failure."""
    finder = Finder(folder)
    stop = events.listen(finder)
    try:
        with finder.trace:
            yield
    finally:
        stop()


class Finder:
    """Listens to the trial's events while the trace runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.violated: list[tuple[Record, tuple[contracts.Broken, ...]]] = []
        self.samples: list[Source] = []
        self.leaves: list[Source] = []
        self.indices: Sequence[Any] | None = None
        self.trace = Trace(check=self._check)

    def _check(self, record: Record) -> None:
        if contracts.has_contract(record.name):
            with _disable_current_modes():
                broken = contracts.check(record.name, contracts.bind(record.operator, record.args, record.kwargs))
            if broken:
                self.violated.append((record, broken))

    # ---- the trial's events ---------------------------------------------------------------------------------------

    def sample_fetched(self, position: int, sample: Any, value: Any) -> None:
        if position == 0:
            self.trace.restart()
            self.samples, self.leaves, self.indices, self.violated = [], [], None, []
        for path, tensor in _tensors_with_paths(value, ""):
            if len(self.samples) < _MAX_SOURCES:
                self.samples.append(Source(tensor, path, position, sample))

    def batch_handed_out(self, batch: Any, samples: Sequence[Any] | None) -> None:
        self.leaves = [Source(tensor, path) for path, tensor in _tensors_with_paths(batch, "")]
        self.indices = samples

    def failed(self, error: BaseException) -> None:
        with _disable_current_modes():
            finding = self._finding(first_of(error))
        write_atomically(self.folder / "locate.json", msgspec.json.encode(finding))

    # ---- the finding ----------------------------------------------------------------------------------------------

    def _finding(self, error: BaseException) -> Locate:
        raised = self.trace.raised
        record = raised[0] if raised is not None and raised[1] is error else None
        if record is None and self.violated:
            record = self.violated[-1][0] if not _python_raised(error) else None
        trail = tuple(_operation(each) for each in list(self.trace.records)[-TRAIL:])
        modified = _MODIFIED.search(str(error))
        if record is None and modified is not None:
            return self._modified_in_place(modified[1], trail)
        if record is None:
            return Locate(trail=trail, module=_innermost_module(error), method="operator trace")
        forward = self.trace.forward_of(record)
        return Locate(
            operator=record.name,
            began=_frame(record.place),
            module=_innermost_module(error) or record.module,
            forward=_frame(forward[0]) if forward is not None else None,
            arguments=tuple(_arguments(record)),
            violations=tuple(self._violations(record)),
            trail=trail,
            method="operator trace",
        )

    def _violations(self, record: Record) -> Iterator[Violation]:
        broken = next((found for each, found in self.violated if each is record), ())
        if not broken:
            return
        origins = Origins(self.trace.records, self.samples, self.leaves, self.indices)
        bound = contracts.bind(record.operator, record.args, record.kwargs)
        for breach in broken:
            tensor = bound[breach.argument]
            tensor = tensor[breach.part] if breach.part is not None else tensor
            yield Violation(
                contract=breach.contract,
                argument=breach.argument,
                allowed=breach.allowed,
                elements=tuple(_traced(origins, tensor, index, value) for index, value in zip(breach.indices, breach.values, strict=True)),
                count=breach.count,
                note=breach.note,
            )

    def _modified_in_place(self, shape_text: str, trail: tuple[Operation, ...]) -> Locate:
        """An in-place change of what backward needs: which line changed it, and which forward operator had saved it."""
        shape = tuple(int(number) for number in shape_text.split(",") if number.strip())
        records = list(self.trace.records)
        changes = [
            (number, record)
            for number, record in enumerate(records)
            if record.name.endswith("_") and record.place is not None and any(tuple(t.shape) == shape for t in tensors_in(record.args[:1]))
        ]
        for number, change in reversed(changes):
            changed = tensors_in(change.args[:1])[0].untyped_storage().data_ptr()
            for earlier in reversed(records[:number]):
                touched = [t for t in (*tensors_in(list(earlier.args)), *tensors_in(earlier.result)) if t.layout == torch.strided]
                if earlier.name not in _VIEWS and any(t.untyped_storage().data_ptr() == changed for t in touched):
                    return Locate(
                        operator=earlier.name,
                        began=_frame(change.place),
                        changed_at=_frame(change.place),
                        forward=_frame(earlier.place),
                        module=earlier.module,
                        arguments=tuple(_arguments(earlier)),
                        trail=trail,
                        method="operator trace",
                    )
        return Locate(trail=trail, method="operator trace")


_VIEWS = frozenset({"aten.detach", "aten.alias", "aten.view", "aten.slice", "aten.select", "aten.t", "aten.transpose", "aten.permute", "aten.expand", "aten.unsqueeze", "aten.squeeze"})


def _traced(origins: Origins, tensor: torch.Tensor, index: tuple[int, ...], value: Any) -> Element:
    try:
        return msgspec.structs.replace(origins.element(tensor, index, value), index=index)
    except Exception:
        return Element(index=index, value=value)


def _python_raised(error: BaseException) -> bool:
    """Whether Python code raised it, so that no operator can have been the one."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    import linecache

    line = linecache.getline(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno).strip()
    return line.startswith(("raise ", "assert "))


def _innermost_module(error: BaseException) -> str | None:
    modules = modules_in_progress(error.__traceback__)
    return modules[-1] if modules else None


def _frame(place: Place | None) -> Frame | None:
    if place is None:
        return None
    code: types.CodeType = place[0]
    return frame_of(code, place[1])


def _operation(record: Record) -> Operation:
    return Operation(
        operator=record.name,
        shapes=tuple(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors_in(list(record.args))),
        line=_frame(record.place),
        module=record.module,
    )


def _arguments(record: Record) -> Iterator[Argument]:
    for name, value in contracts.bind(record.operator, record.args, record.kwargs).items():
        tensors = tensors_in(value)
        if isinstance(value, torch.Tensor):
            yield _tensor_argument(name, value)
        elif tensors:
            yield from (_tensor_argument(f"{name}[{number}]", tensor) for number, tensor in enumerate(tensors[:16]))
        else:
            yield Argument(name=name, value=repr(value)[:MAX_VALUE])


def _tensor_argument(name: str, tensor: torch.Tensor) -> Argument:
    strided = tensor.layout == torch.strided and not tensor.is_nested
    minimum = maximum = None
    if strided and tensor.numel() and tensor.device.type == "cpu" and not tensor.is_complex() and not tensor.is_quantized:
        with contextlib.suppress(RuntimeError):
            minimum, maximum = float(tensor.min()), float(tensor.max())
    return Argument(
        name=name,
        shape=tuple(tensor.shape) if not tensor.is_nested else None,
        dtype=str(tensor.dtype).removeprefix("torch."),
        device=str(tensor.device),
        stride=tuple(tensor.stride()) if strided else None,
        minimum=minimum,
        maximum=maximum,
    )


def _tensors_with_paths(value: Any, path: str) -> list[tuple[str, torch.Tensor]]:
    """The tensors of a sample or a batch with the path to each; NumPy arrays as tensors over the same memory."""
    if isinstance(value, torch.Tensor):
        return [(path, value)]
    if isinstance(value, np.ndarray):
        try:
            return [(path, torch.from_numpy(value))]
        except (TypeError, ValueError):
            return []
    if isinstance(value, dict):
        children = [(f"{path}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        children = [(f"{path}.{name}", item) for name, item in zip(value._fields, value, strict=True)]
    elif isinstance(value, (list, tuple)):
        children = [(f"{path}[{number}]", item) for number, item in enumerate(value)]
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        children = [(f"{path}.{name}", item) for name, item in vars(value).items()]
    else:
        return []
    return [found for child_path, child in children for found in _tensors_with_paths(child, child_path)]
