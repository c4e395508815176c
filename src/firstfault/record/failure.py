"""A failure as data: the exception, where it was seen, in which phase, inside which modules."""

from __future__ import annotations

import linecache
import operator
import types
from collections.abc import Sequence
from typing import Any

from firstfault.case.schema import ExceptionInfo, Failure, Frame, Phase, WorkerFailure
from firstfault.record import frames as frames_
from firstfault.record.gradients import gradients_off

MAX_MESSAGE = 20_000  # characters; some compilers put whole programs into their messages
MAX_CHAIN = 8  # causes and contexts that are kept


def type_name(kind: type[BaseException]) -> str:
    """``'IndexError'`` for built-in exceptions, ``'torch.OutOfMemoryError'`` for others."""
    return (
        kind.__qualname__
        if kind.__module__ in ("builtins", "__main__")
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def message_of(error: BaseException) -> str:
    """The exception's text; a broken ``__str__`` never gets in the way."""
    try:
        return str(error)[:MAX_MESSAGE]
    except Exception as broken:
        return f"<the exception's text can't be had: {type(broken).__name__}>"


def earlier(error: BaseException) -> BaseException | None:
    """The exception that this one was raised from, or while handling; None when there is none or it is hidden."""
    if error.__cause__ is not None:
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def exception_info(error: BaseException, depth: int = MAX_CHAIN) -> ExceptionInfo:
    """The exception with its base classes and the chain it came from."""
    before = earlier(error) if depth else None
    caused_by = (
        () if before is None else (exception_info(before, 0), *exception_info(before, depth - 1).caused_by)
    )
    return ExceptionInfo(
        type=type_name(type(error)),
        message=message_of(error),
        bases=tuple(type_name(base) for base in type(error).__mro__[1:-2] if issubclass(base, BaseException)),
        caused_by=caused_by[:MAX_CHAIN],
    )


def first_of(error: BaseException) -> BaseException:
    """The first failure of a chain.

    ``raise X from e`` names its cause, so the cause is first. An exception met while another was being handled is
    first only when that other one came out of torch: handled KeyErrors and the like are how Python programs look
    things up, and no failures.
    """
    seen = {id(error)}
    while True:
        before = earlier(error)
        if before is None or id(before) in seen:
            return error
        if error.__cause__ is None and not from_torch(before):
            return error
        seen.add(id(before))
        error = before


def from_torch(error: BaseException) -> bool:
    """Whether torch raised it: by its type, or because the innermost frame is torch's own."""
    if type(error).__module__.split(".")[0] == "torch":
        return True
    entries = frames_.entries(error.__traceback__)
    return bool(entries) and frames_.owner_of(entries[-1].tb_frame.f_code.co_filename) == "torch"


def describe(error: BaseException, phase: Phase = "other", **facts: Any) -> Failure:
    """The failure as data. ``facts`` are further fields of :class:`Failure` that the caller knows."""
    frames = frames_.frames_of(error.__traceback__)
    fetch: WorkerFailure | None = facts.get("fetch")
    seen_in = fetch.frames if fetch is not None and fetch.frames else frames
    facts.setdefault("modules", modules_in_progress(error.__traceback__))
    return Failure(
        kind="raised",
        phase=phase,
        exception=exception_info(error),
        seen=frames_.innermost_user_frame(seen_in) or frames_.innermost_user_frame(frames),
        frames=frames,
        **facts,
    )


def phase_in_loop(
    traceback: types.TracebackType | None, *, steps_in_pass: bool, grad_enabled: bool | None
) -> Phase:
    """The phase of a failure that was raised while a batch was in progress, read from the frames after the failure.

    ``steps_in_pass``: whether the loop has completed an optimizer step. ``grad_enabled`` is torch's grad mode at the
    moment of the raise where it is known; None reads it off the frames.
    """
    entries = frames_.entries(traceback)
    for entry in entries:
        path, function = entry.tb_frame.f_code.co_filename.replace("\\", "/"), entry.tb_frame.f_code.co_name
        if path.endswith(("torch/autograd/__init__.py", "torch/autograd/graph.py")):
            return "backward"
        if function == "backward" and path.endswith("torch/_tensor.py"):
            return "backward"
        if "/torch/optim/" in path or path.endswith("torch/nn/utils/clip_grad.py"):
            if _is_closure_call(entries, entry):
                continue
            return "optimizer"
    off = gradients_off(entries) if grad_enabled is None else not grad_enabled
    return "validation" if off and not steps_in_pass else "forward"


def _is_closure_call(entries: Sequence[types.TracebackType], entry: types.TracebackType) -> bool:
    """Whether the optimizer had called back into the user's closure (LBFGS): then the failure isn't the optimizer's."""
    after = entries[entries.index(entry) + 1 :]
    return any(frames_.owner_of(later.tb_frame.f_code.co_filename) == "user" for later in after)


def modules_in_progress(traceback: types.TracebackType | None) -> tuple[str, ...]:
    """The ``nn.Module``s whose call was in progress, outermost first, as ``'path (Class)'``.

    A module's call shows as a frame of ``Module._call_impl`` (torch/nn/modules/module.py, torch 2.13) with the module
    as ``self``. Paths are relative to the outermost module.
    """
    called: list[Any] = []
    for entry in frames_.entries(traceback):
        if entry.tb_frame.f_code.co_name == "_call_impl" and hasattr(
            self := entry.tb_frame.f_locals.get("self"), "named_modules"
        ):
            called.append(self)
    if not called:
        return ()
    paths = {id(module): path for path, module in called[0].named_modules()}
    return tuple(f"{paths.get(id(module), '') or 'model'} ({type(module).__name__})" for module in called)


def fetch_failure(
    traceback: types.TracebackType | None, indices: Sequence[Any] | None, worker: int | None = None
) -> WorkerFailure | None:
    """Which sample was read, or that samples were put together, when a fetch failed.

    Read off the frames of torch's fetcher (torch/utils/data/_utils/fetch.py, torch 2.13): its list comprehension holds
    the index in ``idx``. None when no fetcher is in the traceback.
    """
    entries = frames_.entries(traceback)
    inside = [
        number
        for number, entry in enumerate(entries)
        if entry.tb_frame.f_code.co_filename.replace("\\", "/").endswith("torch/utils/data/_utils/fetch.py")
    ]
    if not inside:
        return None
    last = entries[inside[-1]]
    rest = entries[inside[-1] + 1].tb_frame if inside[-1] + 1 < len(entries) else None
    frames: tuple[Frame, ...] = frames_.frames_of(last.tb_next)
    if "collate_fn" in linecache.getline(last.tb_frame.f_code.co_filename, last.tb_lineno):
        return WorkerFailure(stage="collate", worker=worker, frames=frames)
    if rest is not None and rest.f_code.co_name == "__init__":
        return WorkerFailure(stage="init", worker=worker, frames=frames)
    names = last.tb_frame.f_locals
    sample = names.get("idx", None if indices is None or isinstance(indices, (list, tuple)) else indices)
    position = _position(names, sample, indices)
    return WorkerFailure(
        stage="getitem", worker=worker, sample=plain(sample), position=position, frames=frames
    )


def _position(names: dict[str, Any], sample: Any, indices: Sequence[Any] | None) -> int | None:
    if not isinstance(indices, (list, tuple)):
        return None
    remaining = names.get(".0")
    if remaining is not None:
        return len(indices) - operator.length_hint(remaining) - 1
    return next((at for at, index in enumerate(indices) if index is sample or index == sample), None)


def plain(value: Any) -> Any:
    """A sample's id as JSON holds it: ints, floats, strings, and tuples of them; anything else as text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(plain(item) for item in value)
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", 1) == 0:
        return plain(item())
    return f"{type(value).__name__}"
