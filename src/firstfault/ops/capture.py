"""The instrument that keeps the failing call, ready to be made into a program of its own.

Calls of torch's public interface are seen by a function mode, aten operators by the trace. At the failure, one or more
forms of it are written to the trial's folder: the public call, the aten operator, the built-in module whose Python code
raised, the calls that led to a failing backward, and the user's own failing statement with its variables.
"""

from __future__ import annotations

import contextlib
import inspect
import linecache
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import _disable_current_modes

from firstfault.case.schema import Fact
from firstfault.case.store import write_atomically
from firstfault.ops.literal import literal
from firstfault.ops.statement import Statement, definitions_of, failing_statement
from firstfault.ops.trace import Trace, tensors_in
from firstfault.record import values
from firstfault.record.failure import first_of
from firstfault.record.frames import entries, owner_of
from firstfault.trial import events

MAX_CALLS = 5_000  # public calls of one batch
MAX_BYTES = 256 * 2**20  # of one form's values


class Form(Fact, frozen=True, kw_only=True):
    """A program in the making. Its values are in ``form-N.json`` and ``.safetensors`` beside ``forms.json``."""

    kind: str
    target: str = ""
    lines: tuple[tuple[str, tuple[str, ...]], ...] = ()
    inputs: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    definitions: str = ""
    nonfinite: str | None = None


@contextlib.contextmanager
def capture_instrument(folder: Path, plan: Any) -> Iterator[None]:
    """Keep the calls of the batch, and write the failing one at the failure."""
    with _capturing(folder, finite=False):
        yield


@contextlib.contextmanager
def capture_nonfinite_instrument(folder: Path, plan: Any) -> Iterator[None]:
    """As above, and keep the first call that makes a non-finite result out of finite arguments."""
    with _capturing(folder, finite=True):
        yield


@contextlib.contextmanager
def _capturing(folder: Path, *, finite: bool) -> Iterator[None]:
    capture = Capture(folder, finite)
    stop = events.listen(capture)
    try:
        with capture.trace, capture.calls:
            yield
    finally:
        stop()


class Call:
    """One call of torch's public interface, with its arguments and result alive."""

    __slots__ = ("anomaly", "args", "error", "function", "kwargs", "result")

    def __init__(self, function: Any, args: Any, kwargs: Any) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.result: Any = None
        self.error: BaseException | None = None
        self.anomaly = torch.is_anomaly_enabled()


class Calls(TorchFunctionMode):
    """Records calls in order; with ``finite``, stops at the first that makes a non-finite value of finite ones."""

    def __init__(self, finite: bool) -> None:
        super().__init__()
        self.finite = finite
        self.made: deque[Call] = deque(maxlen=MAX_CALLS)
        self.first_nonfinite: tuple[Call, Any, Any] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        call = Call(func, args, kwargs)
        self.made.append(call)
        watched = self.finite and self.first_nonfinite is None and not _reads_property(func)
        before = _snapshot((args, kwargs)) if watched else None
        try:
            call.result = func(*args, **kwargs)
        except BaseException as error:
            call.error = error
            raise
        if before is not None and _nonfinite(call.result):
            self.first_nonfinite = (call, *before)
        return call.result


def _reads_property(function: Any) -> bool:
    return getattr(function, "__name__", "") in (
        "__get__",
        "__set__",
        "__repr__",
        "size",
        "dim",
        "is_floating_point",
        "stride",
    )


def _snapshot(arguments: Any) -> Any:
    """Copies of a call's arguments when all of them are finite, else None."""
    with _disable_current_modes(), torch.no_grad():
        if _nonfinite(arguments):
            return None
        return _copied(arguments)


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.preserve_format)
    if isinstance(value, (list, tuple)):
        copied = [_copied(item) for item in value]
        return copied if isinstance(value, list) else tuple(copied)
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return value


def _nonfinite(value: Any) -> bool:
    with _disable_current_modes(), torch.no_grad():
        return any(
            tensor.is_floating_point()
            and tensor.layout == torch.strided
            and not bool(torch.isfinite(tensor).all())
            for tensor in tensors_in(value)
        )


class Capture:
    """Listens to the trial's events while the modes run."""

    def __init__(self, folder: Path, finite: bool) -> None:
        self.folder = folder
        self.trace = Trace()
        self.calls = Calls(finite)

    def sample_fetched(self, position: int, sample: Any, value: Any) -> None:
        if position == 0:
            self._restart()

    def batch_handed_out(self, batch: Any, samples: Any) -> None:
        pass

    def _restart(self) -> None:
        self.trace.restart()
        self.calls.made.clear()

    def failed(self, error: BaseException) -> None:
        error = first_of(error)
        with _disable_current_modes(), torch.no_grad():
            forms: list[Form | None] = []
            for build in (
                self._nonfinite,
                self._collate,
                self._public_call,
                self._operator,
                self._module,
                self._backward,
                self._statement,
            ):
                with contextlib.suppress(Exception):
                    built = build(error)
                    if built is not None:
                        forms.append(self._write(len(forms), *built))
        write_atomically(
            self.folder / "forms.json", msgspec.json.encode([form for form in forms if form is not None])
        )

    def _write(self, number: int, form: Form, kept: dict[str, Any]) -> Form | None:
        whole = values.save_values(kept, self.folder, f"form-{number}", MAX_BYTES)
        return form if whole else None

    # ---- the forms ------------------------------------------------------------------------------------------------

    def _nonfinite(self, error: BaseException) -> tuple[Form, dict[str, Any]] | None:
        if self.calls.first_nonfinite is None:
            return None
        call, args, kwargs = self.calls.first_nonfinite
        written = _Writer()
        line = written.call(call.function, args, kwargs, makes=("result",))
        if line is None or len(tensors_in(call.result)) != 1:
            return None
        form = Form(
            kind="nonfinite",
            target=written.target,
            lines=(line,),
            inputs=tuple(written.kept),
            nonfinite="result",
        )
        return form, written.kept

    def _collate(self, error: BaseException) -> tuple[Form, dict[str, Any]] | None:
        """Samples that can't be put together: a loader over just these, as the failing one had it."""
        fetching = [
            entry
            for entry in entries(error.__traceback__)
            if entry.tb_frame.f_code.co_filename.replace("\\", "/").endswith("_utils/fetch.py")
        ]
        if not fetching or "collate_fn" not in linecache.getline(
            fetching[-1].tb_frame.f_code.co_filename, fetching[-1].tb_lineno
        ):
            return None
        names = fetching[-1].tb_frame.f_locals
        collate = names["self"].collate_fn
        written = _Writer()
        samples = written.value(list(names["data"]), "sample")
        workers = 0 if torch.utils.data.get_worker_info() is None and not _emulating_worker(error) else 1
        options = f"batch_size={len(names['data'])}" + (f", num_workers={workers}" if workers else "")
        needed = Statement("", (), "", {})
        if collate is not torch.utils.data.default_collate:
            found = definitions_of(collate)
            if found is None:
                return None
            needed = found
            options += f", collate_fn={needed.source}"
            written.kept.update(needed.values)
        line = f"next(iter(torch.utils.data.DataLoader({samples}, {options})))"
        form = Form(
            kind="collate",
            target="torch.utils.data.DataLoader",
            lines=((line, ()),),
            inputs=tuple(written.kept),
            names=tuple(needed.values),
            imports=needed.imports,
            definitions=needed.definitions,
        )
        return form, written.kept

    def _public_call(self, error: BaseException) -> tuple[Form, dict[str, Any]] | None:
        call = next((each for each in reversed(self.calls.made) if each.error is error), None)
        if call is None or _is_backward(call):
            return None
        return self._single("call", call.function, call.args, call.kwargs)

    def _operator(self, error: BaseException) -> tuple[Form, dict[str, Any]] | None:
        raised = self.trace.raised
        if raised is None or raised[1] is not error:
            return None
        return self._single("operator", raised[0].operator, raised[0].args, raised[0].kwargs)

    def _single(self, kind: str, function: Any, args: Any, kwargs: Any) -> tuple[Form, dict[str, Any]] | None:
        written = _Writer()
        line = written.call(function, args, kwargs)
        if line is None:
            return None
        return Form(kind=kind, target=written.target, lines=(line,), inputs=tuple(written.kept)), written.kept

    def _module(self, error: BaseException) -> tuple[Form, dict[str, Any]] | None:
        """The innermost built-in module whose call was in progress, built anew, with its inputs."""
        called = [
            entry.tb_frame.f_locals
            for entry in entries(error.__traceback__)
            if entry.tb_frame.f_code.co_name == "_call_impl"
            and isinstance(entry.tb_frame.f_locals.get("self"), torch.nn.Module)
        ]
        built_in = [
            names for names in called if type(names["self"]).__module__.startswith("torch.nn.modules")
        ]
        if not built_in or not called or built_in[-1] is not called[-1]:
            return None
        names = built_in[-1]
        module = names["self"]
        written = _Writer()
        constructor = written.constructor(module)
        parameters = _parameters(type(module).forward)[1:]
        arguments = written.arguments(names.get("args", ()), names.get("kwargs", {}), parameters)
        lines = ((constructor, ("module",)), (f"module({arguments})", ()))
        return Form(
            kind="module", target=f"torch.nn.{type(module).__name__}", lines=lines, inputs=tuple(written.kept)
        ), written.kept

    def _backward(self, error: BaseException) -> tuple[Form, dict[str, Any]] | None:
        """The public calls of the batch up to a failing backward."""
        calls = list(self.calls.made)
        last = next((n for n in range(len(calls) - 1, -1, -1) if calls[n].error is error), None)
        if last is None or not _is_backward(calls[last]):
            return None
        written = _Writer()
        lines: list[tuple[str, tuple[str, ...]]] = []
        if calls[last].anomaly:
            lines.append(("torch.autograd.set_detect_anomaly(True)", ()))
        for call in _needed(calls[: last + 1]):
            line = written.step(call)
            if line is None:
                return None
            lines.append(line)
        recorded = {name: value for name, value in written.made.items() if isinstance(value, torch.Tensor)}
        kept = {
            **written.kept,
            **{name: value.detach().requires_grad_(value.requires_grad) for name, value in recorded.items()},
        }
        form = Form(
            kind="backward",
            target="torch.Tensor.backward",
            lines=tuple(lines),
            inputs=tuple(written.kept),
            recorded=tuple(recorded),
        )
        return form, kept

    def _statement(self, error: BaseException) -> tuple[Form, dict[str, Any]] | None:
        """The user's own statement that failed, with the values of the names that it uses."""
        inside = [
            entry
            for entry in entries(error.__traceback__)
            if owner_of(entry.tb_frame.f_code.co_filename) == "user"
        ]
        if not inside:
            return None
        found = failing_statement(inside[-1].tb_frame, inside[-1].tb_lineno)
        if found is None:
            return None
        form = Form(
            kind="statement",
            target=inside[-1].tb_frame.f_code.co_name,
            lines=((found.source, ()),),
            inputs=tuple(found.values),
            names=tuple(found.values),
            imports=found.imports,
            definitions=found.definitions,
        )
        return form, found.values


def _emulating_worker(error: BaseException) -> bool:
    """Whether the fetch was made with a worker's surroundings, which have unwound by now."""
    return any(
        entry.tb_frame.f_code.co_name == "_next_data"
        and getattr(entry.tb_frame.f_locals.get("self"), "loader_workers", 0)
        for entry in entries(error.__traceback__)
    )


def _needed(calls: list[Call]) -> list[Call]:
    """The calls that the last one depends on: through their results, and through what was changed in place."""
    wanted = {id(tensor) for tensor in tensors_in(list(calls[-1].args))}
    storages: set[int] = set()
    needed = [calls[-1]]
    for call in reversed(calls[:-1]):
        if _reads_property(call.function) or call.error is not None:
            continue
        made = tensors_in(call.result)
        inputs = [*tensors_in(list(call.args)), *tensors_in(list(call.kwargs.values()))]
        if _is_backward(call):  # it frees, or has freed, what a later backward needs
            needed.append(call)
            wanted.update(id(tensor) for tensor in tensors_in(list(call.args)))
            continue
        in_place = getattr(call.function, "__name__", "").rstrip("_") + "_" == getattr(
            call.function, "__name__", ""
        ) and bool(inputs)
        touches = in_place and _storage(inputs[0]) in storages
        if any(id(tensor) in wanted for tensor in made) or touches:
            needed.append(call)
            wanted.update(id(tensor) for tensor in inputs)
            storages.update(_storage(tensor) for tensor in (*inputs, *made))
    return needed[::-1]


def _is_backward(call: Call) -> bool:
    return getattr(call.function, "__name__", "") == "backward"


def _storage(tensor: torch.Tensor) -> int:
    return (
        tensor.untyped_storage().data_ptr()
        if tensor.layout == torch.strided and not tensor.is_nested
        else id(tensor)
    )


class _Writer:
    """Writes calls as templates and collects the values that they use under names."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.made: dict[str, Any] = {}
        self.names: dict[int, str] = {}
        self.target = ""

    def call(
        self, function: Any, args: Any, kwargs: Any, makes: tuple[str, ...] = ()
    ) -> tuple[str, tuple[str, ...]] | None:
        name = _name_of(function)
        if name is None:
            return None
        self.target = name
        if name.endswith(".__get__"):
            return f"{self.value(args[0], 'self')}.{name.split('.')[-2]}", makes
        parameters = _parameters(function)
        if name.startswith("torch.Tensor.") and args and not name.split(".")[-1].startswith("__"):
            receiver = self.value(args[0], "x")
            return (
                f"{receiver}.{name.removeprefix('torch.Tensor.')}({self.arguments(args[1:], kwargs, parameters[1:])})",
                makes,
            )
        return f"{name}({self.arguments(args, kwargs, parameters)})", makes

    def step(self, call: Call) -> tuple[str, tuple[str, ...]] | None:
        """One line of a longer program: its result gets a name."""
        results = (
            [call.result]
            if isinstance(call.result, torch.Tensor)
            else list(call.result)
            if isinstance(call.result, (tuple, list))
            else []
        )
        line = self.call(call.function, call.args, call.kwargs)
        if line is None:
            return None
        makes = []
        for result in results:
            if isinstance(result, torch.Tensor):
                name = self.names.get(id(result)) or f"t{len(self.made)}"
                self.names[id(result)] = name
                self.made[name] = result
                makes.append(name)
            else:
                makes.append("_")
        return line[0], tuple(makes)

    def arguments(self, args: Any, kwargs: Any, parameters: tuple[str, ...] = ()) -> str:
        names = (*parameters, *(f"argument{n}" for n in range(len(parameters), len(args))))
        written = [self.value(value, name) for value, name in zip(args, names, strict=False)]
        return ", ".join([*written, *(f"{name}={self.value(value, name)}" for name, value in kwargs.items())])

    def value(self, value: Any, hint: str) -> str:
        """A value's place in a template: a name in braces, or a list of them."""
        if isinstance(value, torch.Tensor):
            known = self.names.get(id(value))
            if known is None:
                known = self._free(hint)
                self.names[id(value)] = known
                self.kept[known] = value
            return f"@{{{known}}}"
        if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
            inner = ", ".join(self.value(item, f"{hint}{n}") for n, item in enumerate(value))
            return (
                f"[{inner}]"
                if isinstance(value, list)
                else f"({inner},)"
                if len(value) == 1
                else f"({inner})"
            )
        if type(value) is dict:
            return (
                "{"
                + ", ".join(
                    f"{key!r}: {self.value(item, f'{hint}{n}')}"
                    for n, (key, item) in enumerate(value.items())
                )
                + "}"
            )
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.ndim:
            return self.value(torch.from_numpy(value.copy()), hint) + ".numpy()"
        if isinstance(value, bool) or value is None or not isinstance(value, (int, float)):
            return literal(value)
        known = self._free(hint)
        self.kept[known] = value
        return f"@{{{known}}}"

    def _free(self, hint: str) -> str:
        base = hint if hint.isidentifier() and hint not in ("_", "lambda", "self") else "x"
        taken = {*self.kept, *self.made}
        return (
            base
            if base not in taken
            else next(f"{base}{n}" for n in range(2, 10_000) if f"{base}{n}" not in taken)
        )

    def constructor(self, module: torch.nn.Module) -> str:
        """A built-in module's constructor call, read off its signature and its attributes of the same names."""
        kind = type(module)
        written = []
        for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
            found = getattr(module, name, inspect.Parameter.empty)
            if name in ("device", "dtype") or parameter.kind in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            ):
                continue
            if name == "bias" and not isinstance(found, bool):
                found = found is not None
            if (
                found is inspect.Parameter.empty
                or isinstance(found, (torch.Tensor, torch.nn.Module))
                or found == parameter.default
            ):
                continue
            written.append(f"{name}={self.value(found, name)}")
        return f"torch.nn.{kind.__name__}({', '.join(self._recurrent(kind, module) + written)})"

    def _recurrent(self, kind: type, module: Any) -> list[str]:
        """The sizes that recurrent modules take as ``*args`` (torch/nn/modules/rnn.py, torch 2.13)."""
        if kind.__name__ not in ("RNN", "LSTM", "GRU"):
            return []
        names = ["input_size", "hidden_size"] + (["num_layers"] if module.num_layers != 1 else [])
        flags = [f"{name}=True" for name in ("batch_first", "bidirectional") if getattr(module, name)]
        return [f"{name}={self.value(getattr(module, name), name)}" for name in names] + flags


def _name_of(function: Any) -> str | None:
    """How a function is reached from the outside, or None."""
    if isinstance(function, torch._ops.OpOverload):
        return f"torch.ops.{function}"
    name = resolve_name(function)
    if name is None or not name.startswith("torch"):
        return None
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return name if found is not None else None


def _parameters(function: Any) -> tuple[str, ...]:
    """The names of a function's positional parameters, as far as they can be known."""
    if isinstance(function, torch._ops.OpOverload):
        return tuple(argument.name for argument in function._schema.arguments)
    try:
        return tuple(
            name
            for name, each in inspect.signature(function).parameters.items()
            if each.kind is not each.VAR_KEYWORD
        )
    except (TypeError, ValueError):
        return {"linear": ("input", "weight", "bias"), "conv2d": ("input", "weight", "bias")}.get(
            getattr(function, "__name__", ""), ()
        )


__all__ = ["Form", "capture_instrument", "capture_nonfinite_instrument"]
