"""The call that was in progress when C++ code raised before any operator ran.

An argument that can't be parsed, ``x.numpy()`` on a tensor that requires grad, an integer index out of range: torch
raises these without dispatching anything, so no trace sees them. A function mode would, but it switches off fast paths
(``nn.TransformerEncoderLayer`` in inference) and so changes what runs. The failing instruction's source position says
which call it was, after the fact and for nothing.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import types
from typing import Any, NamedTuple

import torch

MAX_SOURCE = 4_000_000  # characters of a file that is parsed

_OPERATORS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
}
# What Python's own protocols call a tensor operator.
_PROTOCOLS = {"__getitem__": "index", "__setitem__": "index_put_"}
_UNKNOWN = object()


class Call(NamedTuple):
    """A call of torch's by its aten name, with the arguments that could be read off the frame's variables."""

    operator: str
    arguments: tuple[tuple[str, Any], ...]


def call_in_progress(traceback: types.TracebackType | None) -> Call | None:
    """The torch call that the innermost frame of a traceback was in; None when it raised by itself, or can't be told."""
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return None
    frame = traceback.tb_frame
    node = _expression(frame.f_code, traceback.tb_lasti)
    if isinstance(node, ast.Call):
        return _of_call(node, frame)
    if isinstance(node, ast.BinOp):
        return _of_tensors(_OPERATORS.get(type(node.op)), [node.left, node.right], frame)
    if isinstance(node, ast.Subscript):
        return _of_tensors("index", [node.value], frame)
    return None


def _of_call(node: ast.Call, frame: types.FrameType) -> Call | None:
    function = _value(node.func, frame)
    if not isinstance(function, (types.BuiltinFunctionType, types.MethodDescriptorType)) or not _is_torchs(
        function
    ):
        return None
    name = aten_name(function.__name__)
    if name is None:
        return None
    given = list(node.args)
    values = [
        (f"argument {n}", _value(each, frame))
        for n, each in enumerate(given)
        if not isinstance(each, ast.Starred)
    ]
    values += [(each.arg, _value(each.value, frame)) for each in node.keywords if each.arg is not None]
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.Tensor):
        values.insert(0, ("self", owner))
    return Call(name, tuple((label, value) for label, value in _named(name, values) if value is not _UNKNOWN))


def _of_tensors(name: str | None, nodes: list[ast.expr], frame: types.FrameType) -> Call | None:
    values = [_value(node, frame) for node in nodes]
    operator = aten_name(name) if name is not None else None
    if operator is None or not any(isinstance(value, torch.Tensor) for value in values):
        return None
    labels = ("self", "other")
    return Call(
        operator,
        tuple((label, value) for label, value in zip(labels, values, strict=False) if value is not _UNKNOWN),
    )


def aten_name(name: str) -> str | None:
    """``'aten.stack'`` for ``'stack'``, where there is such an operator."""
    name = _PROTOCOLS.get(name, name)
    return f"aten.{name}" if hasattr(torch.ops.aten, name) else None


def _named(operator: str, values: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Positional arguments by the names of the first overload's schema."""
    packet = getattr(torch.ops.aten, operator.split(".")[1])
    names = [argument.name for argument in getattr(packet, packet.overloads()[0])._schema.arguments]
    return [
        (names[n] if n < len(names) and label.startswith("argument ") else label, value)
        for n, (label, value) in enumerate(values)
    ]


def _is_torchs(function: Any) -> bool:
    owner = getattr(function, "__self__", getattr(function, "__objclass__", None))
    kind = owner if isinstance(owner, type) else type(owner)
    if issubclass(kind, torch._C.TensorBase):
        return True
    module = getattr(owner, "__name__", None) or getattr(function, "__module__", None) or kind.__name__
    return str(module).split(".")[0] in ("torch", "_VariableFunctionsClass", "_VariableFunctions")


def _value(node: ast.expr, frame: types.FrameType) -> Any:
    """The value of an expression that can be read without running anything, else ``_UNKNOWN``."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in names:
                return names[node.id]
        return _UNKNOWN
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [_value(item, frame) for item in node.elts]
        return _UNKNOWN if _UNKNOWN in items[:0] or any(item is _UNKNOWN for item in items) else items
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, frame)
        if isinstance(owner, (types.ModuleType, torch.Tensor, type, torch.nn.Module)):
            return getattr(owner, node.attr, _UNKNOWN)
    return _UNKNOWN


# ---- source positions ----------------------------------------------------------------------------------------------


def _expression(code: types.CodeType, instruction: int) -> ast.AST | None:
    """The syntax node whose evaluation an instruction belongs to."""
    positions = list(code.co_positions())
    if not 0 <= instruction // 2 < len(positions):
        return None
    line, end_line, column, end_column = positions[instruction // 2]
    tree = _tree(code.co_filename)
    if tree is None or line is None:
        return None
    wanted = (line, end_line, column, end_column)
    expressions = (node for node in ast.walk(tree) if isinstance(node, ast.expr))
    return next(
        (e for e in expressions if (e.lineno, e.end_lineno, e.col_offset, e.end_col_offset) == wanted), None
    )


@functools.lru_cache(maxsize=16)
def _tree(filename: str) -> ast.AST | None:
    source = "".join(linecache.getlines(filename))
    if not source or len(source) > MAX_SOURCE:
        return None
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
