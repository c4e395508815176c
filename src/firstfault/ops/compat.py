"""Every private attribute of torch that operator traces rely on, each behind one function.

Versions seen: torch 2.13.0 (CPU). ``tests/ops/test_trace_compat.py`` fails with the name when another version moved it.
Files are relative to torch's folder.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

T = TypeVar("T")


def current_autograd_node() -> Any:
    """The node whose backward runs in this thread, or None (csrc/autograd/python_engine.cpp)."""
    return torch._C._current_autograd_node()


def current_graph_task() -> int:
    """The number of the backward pass that runs in this thread, -1 outside of one (csrc/autograd/python_engine.cpp)."""
    return torch._C._current_graph_task_id()


def next_sequence_number() -> int:
    """The number that the next autograd node of this thread will have (csrc/autograd/init.cpp)."""
    return torch._C._autograd._get_sequence_nr()


def sequence_number(node: Any) -> int:
    """The number that an autograd node got when it was made; later ones run first."""
    return node._sequence_nr()


def version_of(tensor: Any) -> int:
    """How often a tensor's memory was changed in place; tensors made under inference mode have no count."""
    return -1 if tensor.is_inference() else tensor._version


def schema_of(operator: Any) -> Any:
    """The schema of an ``OpOverload`` (_ops.py); None for higher-order operators, which have none."""
    return getattr(operator, "_schema", None)


def is_pointwise(operator: Any) -> bool:
    """Whether an operator computes element by element (torch.Tag.pointwise, from aten/src/ATen/native/tags.yaml)."""
    return torch.Tag.pointwise in getattr(operator, "tags", ())


def module_call_code() -> types.CodeType:
    """The code of ``Module._call_impl``, whose frame shows that a module's call is in progress (nn/modules/module.py)."""
    return torch.nn.Module._call_impl.__code__  # type: ignore[attr-defined]


def engine_code() -> types.CodeType:
    """The code that every backward pass is started from (autograd/graph.py)."""
    from torch.autograd.graph import _engine_run_backward

    return _engine_run_backward.__code__


@contextlib.contextmanager
def eagerly() -> Iterator[None]:
    """A context in which ``torch.compile``d code runs as it was written.

    torch._dynamo takes seconds to import; where nothing has imported it yet, the variable that it reads then is set
    (_dynamo/config.py).
    """
    if "torch._dynamo" in sys.modules:
        with torch.compiler.set_stance("force_eager"):
            yield
        return
    before = os.environ.get("TORCH_COMPILE_DISABLE")
    os.environ["TORCH_COMPILE_DISABLE"] = "1"
    try:
        yield
    finally:
        os.environ.pop("TORCH_COMPILE_DISABLE")
        if before is not None:
            os.environ["TORCH_COMPILE_DISABLE"] = before
        config = sys.modules.get("torch._dynamo.config")
        if config is not None:
            config.disable = before == "1"  # type: ignore[attr-defined]


def undisturbed(function: Callable[[], T]) -> T:
    """The function's result, computed in a thread of its own: without modes, and with autograd at work.

    Inside of a dispatch mode's handler autograd is switched off for the thread (core/PythonFallbackKernel.cpp), also for
    what the handler computes for itself.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="firstfault") as pool:
        return pool.submit(function).result()


def without_modes() -> Any:
    """A context in which no dispatch mode sees what is computed (utils/_python_dispatch.py)."""
    return _disable_current_modes()


# ---- contracts --------------------------------------------------------------------------------------------------------


def has_values(tensor: torch.Tensor) -> bool:
    """Whether a tensor can be read: no meta tensor, and no subclass that takes operators over (fake, distributed, …)."""
    plain = type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__  # type: ignore[comparison-overlap]
    return plain and tensor.device.type != "meta"
