"""Failures that autograd raises itself: a tensor changed in place, a graph that was freed.

Such an error names shapes and versions but no line. The graph still knows: reading a node's saved tensors raises the
very error, so the node that failed is the first in the order of execution whose saved tensors can't be read (``_saved_*``
attributes, torch/csrc/autograd/python_function.cpp and generated accessors, torch 2.13). From its sequence number
follows the forward operator; from the trace, which operator changed the tensor after it.
"""

from __future__ import annotations

import re
import types
from typing import Any, NamedTuple

import torch

from firstfault.ops import compat
from firstfault.ops.memory import has_address
from firstfault.ops.trace import Place, Record, Step, Trace, tensors_in
from firstfault.record.frames import entries

MAX_NODES = 200_000  # of a graph that are looked at
_MODIFIED = re.compile(
    r"modified by an inplace operation: \[[\w.]+ \[?(?P<shape>[\d, ]*)\]?\](?:.*?is at version (?P<at>\d+); expected version (?P<expected>\d+))?",
    re.DOTALL,
)
_FREED = "backward through the graph a second time"
_LAST = 2**63  # AccumulateGrad nodes have a larger number than any and save nothing


class Changed(NamedTuple):
    """A tensor that a forward operator had saved was changed in place: by which call, where it was known."""

    forward: Step | None
    change: Record | None


class Freed(NamedTuple):
    """A graph was run through that an earlier backward had freed, at ``freed_at``."""

    forward: Step | None
    freed_at: Place | None


def autograd_fault(error: BaseException, trace: Trace) -> Changed | Freed | None:
    """What an error of autograd's own came from; None for any other error."""
    text = str(error)
    modified = _MODIFIED.search(text)
    if modified is None and _FREED not in text:
        return None
    nodes = _unreadable_nodes(error)
    if (
        modified is None
    ):  # nodes that this very pass has run are freed as well, and aren't the one that failed
        nodes = [
            node
            for node in nodes
            if trace.ran_backward(compat.sequence_number(node))[0] != trace.last_backward
        ] or nodes
    number = compat.sequence_number(nodes[0]) if nodes else None
    if modified is None:
        return Freed(trace.forward_of(number), trace.ran_backward(number)[1] if number is not None else None)
    shape = tuple(int(each) for each in modified["shape"].split(",") if each.strip())
    expected = int(modified["expected"]) if modified["expected"] else None
    return Changed(trace.forward_of(number), _change(trace, number, shape, expected))


def _change(trace: Trace, node: int | None, shape: tuple[int, ...], expected: int | None) -> Record | None:
    """The call that first changed what the node's forward operator had saved, by memory and version.

    A custom ``autograd.Function`` may have saved any tensor; then shape and version must do.
    """
    saver = next((record for record in trace.records if node is not None and record.made_node == node), None)
    later = [record for record in trace.records if saver is None or record.number > saver.number]
    saved = {
        tensor.untyped_storage().data_ptr()
        for tensor in (
            tensors_in([*saver.args, *saver.kwargs.values(), saver.result]) if saver is not None else ()
        )
        if has_address(tensor) and tuple(tensor.shape) == shape
    }
    changes = [
        (record, tensor)
        for record in later
        for tensor, version, _ in record.written
        if has_address(tensor) and expected in (None, version)
    ]
    by_memory = (record for record, tensor in changes if tensor.untyped_storage().data_ptr() in saved)
    by_shape = (record for record, tensor in changes if tuple(tensor.shape) == shape)
    return next(by_memory, None) or next(by_shape, None)


def _unreadable_nodes(error: BaseException) -> list[Any]:
    """The nodes whose saved tensors can't be read for the error's own reason, in the order in which backward runs them."""
    nodes = sorted(
        _nodes(_roots(error.__traceback__)), key=lambda each: -min(compat.sequence_number(each), _LAST)
    )
    return [node for node in nodes if _unreadable(node, _kind(str(error)))]


def _unreadable(node: Any, kind: str) -> bool:
    for name in dir(node):
        if name == "saved_tensors" or name.startswith("_saved_"):
            try:
                getattr(node, name)
            except RuntimeError as unreadable:
                if _kind(str(unreadable)) == kind:
                    return True
            except Exception:  # a node of another library's making
                continue
    return False


def _kind(text: str) -> str:
    return "modified" if _MODIFIED.search(text) else "freed" if _FREED in text else text


def _roots(traceback: types.TracebackType | None) -> list[Any]:
    """The nodes that the failing backward pass started from, read off the frame that called the engine."""
    for entry in entries(traceback):
        if entry.tb_frame.f_code is compat.engine_code():
            outputs = entry.tb_frame.f_locals.get("t_outputs", ())
            return [each.grad_fn if isinstance(each, torch.Tensor) else each.node for each in outputs]
    return []


def _nodes(roots: list[Any]) -> list[Any]:
    seen: dict[Any, None] = {}
    waiting = [node for node in roots if node is not None]
    while waiting and len(seen) < MAX_NODES:
        node = waiting.pop()
        if node not in seen:
            seen[node] = None
            waiting.extend(following for following, _ in node.next_functions if following is not None)
    return list(seen)
