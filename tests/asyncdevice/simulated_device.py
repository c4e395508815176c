"""A device that works like CUDA in what matters here: it computes later, and its errors show up later still.

It is torch's PrivateUse1 back end, written in Python (torch/utils/backend_registration.py, torch 2.13). Its memory is
host memory under another device's name, so storages, strides and addresses are real. A kernel is put on the current
stream's queue and runs on the host when something waits: ``item()``, a copy to the host, ``synchronize()``. A kernel
whose host operator raises is an assertion that fired: a line like CUDA's goes to file descriptor 2, what is queued is
lost, and from then on every use of the device raises.

    import simulated_device
    simulated_device.install()
    x = torch.ones(3, device="sim")

``SIM_LAUNCH_BLOCKING=1`` makes every launch wait. ``counts`` tells launches and waits.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "sim"
MESSAGE = (
    "CUDA error: device-side assert triggered\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1"
)
# What CUDA's own kernels assert, by operator (aten/src/ATen/native/cuda).
_ASSERTIONS = {
    "nll_loss_forward": ("Loss.cu", "nll_loss_forward_reduce_cuda_kernel_2d", "t >= 0 && t < n_classes"),
    "nll_loss2d_forward": ("NLLLoss2d.cu", "nll_loss2d_forward_kernel", "t >= 0 && t < n_classes"),
    "embedding": ("Indexing.cu", "indexSelectLargeIndex", "srcIndex < srcSelectDimSize"),
    "index": (
        "IndexKernel.cu",
        "operator()",
        '-sizes[i] <= index && index < sizes[i] && "index out of bounds"',
    ),
    "gather": (
        "ScatterGatherKernel.cu",
        "operator()",
        'idx_dim >= 0 && idx_dim < index_size && "index out of bounds"',
    ),
}
_WAITS = frozenset(
    {"_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique2", "is_nonzero", "bincount"}
)
_HOST = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

counts = {"launches": 0, "waits": 0}
_memory: dict[int, torch.Tensor] = {}  # host bytes by storage; a test's process never gives them back
_dead = False
_broken: dict[str, int] = {}  # operators whose kernel asserts, after so many good calls


# ---- streams ---------------------------------------------------------------------------------------------------------


class Stream:
    """A queue of kernels. Streams know nothing of each other except through events."""

    def __init__(self) -> None:
        self.queue: collections.deque[Callable[[], None]] = collections.deque()
        self.done = 0
        self.given = 0
        _streams.append(self)

    def launch(self, kernel: Callable[[], None]) -> None:
        self.queue.append(kernel)
        self.given += 1

    def drain(self, until: int | None = None) -> None:
        """Run what is queued, in order; up to kernel number ``until``."""
        while self.queue and (until is None or self.done < until):
            kernel = self.queue.popleft()
            self.done += 1
            kernel()

    def record_event(self) -> tuple[Stream, int]:
        return (self, self.given)

    def wait_event(self, event: tuple[Stream, int]) -> None:
        stream, number = event
        self.launch(lambda: stream.drain(number))

    def wait_stream(self, other: Stream) -> None:
        self.wait_event(other.record_event())

    def synchronize(self) -> None:
        _wait([self])


_streams: list[Stream] = []
_default = Stream()
_current = [_default]


def _wait(streams: list[Stream]) -> None:
    """Run the streams' kernels, the latest made stream first: nothing may count on the order between them."""
    global _dead
    counts["waits"] += 1
    _raise_if_dead()
    try:
        for stream in reversed(streams):
            stream.drain()
    except _AssertionFired:
        _dead = True
        for stream in _streams:
            stream.queue.clear()
        _raise_if_dead()


def _raise_if_dead() -> None:
    if _dead:
        raise torch.AcceleratorError(MESSAGE)


class _AssertionFired(Exception):
    pass


# ---- memory ----------------------------------------------------------------------------------------------------------


def _empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of the device over new host memory."""
    reach = (
        0 if 0 in size else 1 + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    )
    host = torch.zeros(max(reach * dtype.itemsize, 1), dtype=torch.uint8)
    storage = torch._C._construct_storage_from_data_pointer(
        host.data_ptr(), torch.device(NAME, 0), host.numel()
    )
    _memory[host.data_ptr()] = host
    tensor = torch._C._acc.create_empty_tensor((0,), dtype)
    torch.ops.aten.set_.source_Storage_storage_offset.redispatch(
        _HOST, tensor, storage, 0, list(size), list(stride)
    )
    return tensor


def _on_host(value: Any) -> Any:
    """A host tensor over the same memory as a device tensor; anything else as it is."""
    if isinstance(value, torch.Tensor) and value.device.type == NAME:
        host = _memory[value.untyped_storage().data_ptr()]
        return torch.empty(0, dtype=value.dtype).set_(
            host.untyped_storage(), value.storage_offset(), value.shape, value.stride()
        )
    if isinstance(value, (list, tuple)):
        return type(value)(_on_host(each) for each in value)
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _blank(value: Any) -> Any:
    """As :func:`_on_host`, with zeros for values: enough to ask an operator for the shapes of its results."""
    if isinstance(value, torch.Tensor) and value.device.type == NAME:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).zero_()
    if isinstance(value, (list, tuple)):
        return type(value)(_blank(each) for each in value)
    return torch.device("cpu") if isinstance(value, torch.device) else value


# ---- operators -------------------------------------------------------------------------------------------------------


def _empty(
    size: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> torch.Tensor:
    _raise_if_dead()
    stride = torch.empty(size, device="meta").stride()
    return _empty_strided(size, stride, dtype or torch.get_default_dtype())


def _new_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> torch.Tensor:
    _raise_if_dead()
    return _empty_strided(size, stride, dtype or torch.get_default_dtype())


def _as_strided(tensor: torch.Tensor, size: Any, stride: Any, storage_offset: Any = None) -> torch.Tensor:
    return torch.ops.aten.as_strided.default.redispatch(_HOST, tensor, size, stride, storage_offset)


def _copy(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """A copy from the host is queued (what it reads is read now, unless it is non-blocking); one to the host waits."""
    _raise_if_dead()
    if source.device.type == "cpu" and not non_blocking:
        source = source.clone()
    from_, to = _on_host(source), _on_host(target)
    _launch("copy_", lambda: to.copy_(from_))
    if target.device.type == "cpu" and not non_blocking:
        _wait(_streams)
    return target


def _any_operator(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Every other operator: views at once, what the host has to know at once after waiting, the rest later."""
    _raise_if_dead()
    schema = operator._schema
    name = schema.name.split("::")[1]
    if name == "set_" or (
        schema.returns
        and all(each.alias_info is not None and not each.alias_info.is_write for each in schema.returns)
    ):
        return operator.redispatch(_HOST, *args, **kwargs)
    if name in _WAITS:
        _launch(name, lambda: None)
        _wait(_streams)
        return _to_device(operator(*_on_host(args), **_named(kwargs, _on_host)))
    given = dict(zip([argument.name for argument in schema.arguments], args, strict=False)) | kwargs
    written = [
        given[each.name]
        for each in schema.arguments
        if each.alias_info is not None and each.alias_info.is_write and each.name in given
    ]
    shapes = operator(*_blank(args), **_named(kwargs, _blank))
    if "out" in given:
        _resize(given["out"], shapes)
    result = written[0] if written and len(schema.returns) == 1 else _like(shapes)
    host_args, host_kwargs, host_result = _on_host(args), _named(kwargs, _on_host), _on_host(result)

    def kernel() -> None:
        computed = operator(*host_args, **host_kwargs)
        if not written:
            for target, value in zip(_flat(host_result), _flat(computed), strict=True):
                target.copy_(value)

    _launch(name, kernel)
    return result


def _resize(out: torch.Tensor, wanted: torch.Tensor) -> None:
    """Give an ``out`` argument of another shape new memory, as operators do."""
    if out.shape != wanted.shape:
        storage = _empty_strided(wanted.shape, wanted.stride(), out.dtype).untyped_storage()
        torch.ops.aten.set_.source_Storage_storage_offset.redispatch(
            _HOST, out, storage, 0, wanted.shape, wanted.stride()
        )


def _launch(name: str, compute: Callable[[], Any]) -> None:
    def kernel() -> None:
        if name in _broken:
            _broken[name] -= 1
        try:
            with torch.no_grad():
                compute()
            if _broken.get(name, 0) < 0:
                raise IndexError("broken on purpose")
        except (IndexError, RuntimeError):
            file, function, condition = _ASSERTIONS.get(name, (f"{name}.cu", f"{name}_kernel", "valid"))
            line = f"/pytorch/aten/src/ATen/native/cuda/{file}:1: {function}: block: [0,0,0], thread: [3,0,0] Assertion `{condition}` failed.\n"
            os.write(2, line.encode())
            raise _AssertionFired from None

    counts["launches"] += 1
    _current[-1].launch(kernel)
    if os.environ.get("SIM_LAUNCH_BLOCKING") == "1":
        _wait(_streams)


def _named(kwargs: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    return {name: convert(value) for name, value in kwargs.items()}


def _flat(value: Any) -> list[torch.Tensor]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return [each for each in values if isinstance(each, torch.Tensor)]


def _like(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _empty_strided(value.shape, value.stride(), value.dtype)
    return type(value)(_like(each) for each in value) if isinstance(value, (list, tuple)) else value


def _to_device(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return tuple(_to_device(each) for each in value) if isinstance(value, (list, tuple)) else value
    made = _like(value)
    _on_host(made).copy_(value)
    return made


# ---- the back end's module, torch.sim --------------------------------------------------------------------------------


class Backend:
    """What is found as ``torch.sim``."""

    Stream = Stream

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        pass

    def synchronize(self, device: Any = None) -> None:
        _wait(_streams)

    def current_stream(self) -> Stream:
        return _current[-1]

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        _current.append(stream)
        try:
            yield
        finally:
            _current.pop()


def break_operator(name: str, after: int = 0) -> None:
    """Make the kernel of an operator assert, after so many good calls."""
    _broken[name] = after


_libraries: list[torch.library.Library] = []  # a library that is let go takes its kernels with it


def install(guard: str | None = None) -> None:
    """Register the device in this process.

    ``guard`` is the library that ``device_guard.cpp`` was built to. Without it an error inside one of autograd's own
    backward operators ends the process, because torch calls a guard written in Python at a time when it must not.
    """
    if _libraries:
        return
    if guard is not None:
        ctypes.CDLL(guard)
    _setup_privateuseone_for_python_backend(NAME, backend_module=Backend())
    aten, every = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
    _libraries.extend([aten, every])
    aten.impl("empty.memory_format", _empty, "PrivateUse1")
    aten.impl("empty_strided", _new_strided, "PrivateUse1")
    aten.impl("as_strided", _as_strided, "PrivateUse1")
    aten.impl("_copy_from", _copy, "PrivateUse1")
    every.fallback(_any_operator, "PrivateUse1")
