"""Whether gradients were off where a failure was raised, read from the frames that it left.

Context managers have unwound by the time a failure is seen, so torch's own answer would be wrong. What remains is the
source: a frame inside ``with torch.no_grad():`` stands on a line of that block.
"""

from __future__ import annotations

import functools
import linecache
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast

_OFF = frozenset({"no_grad", "inference_mode"})


def gradients_off(entries: Sequence[types.TracebackType]) -> bool:
    """Whether any frame stood inside ``no_grad`` or ``inference_mode``, as a block or as a decorator."""
    for entry in reversed(entries):
        frame = entry.tb_frame
        path = frame.f_code.co_filename.replace("\\", "/")
        if path.endswith("torch/utils/_contextlib.py") and frame.f_code.co_name == "decorate_context":
            factory = frame.f_locals.get("ctx_factory")
            maker = getattr(factory, "__self__", None)
            if type(maker).__name__ in _OFF:
                return True
        state = grad_state_at(frame.f_code.co_filename, entry.tb_lineno)
        if state is not None:
            return state == "off"
    return False


@functools.lru_cache(maxsize=256)
def _blocks(filename: str) -> tuple[tuple[int, int, str], ...]:
    import ast

    source = "".join(linecache.getlines(filename))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                state = _state(item.context_expr)
                if state is not None:
                    found.append((node.body[0].lineno, node.end_lineno or node.lineno, state))
    return tuple(found)


def _state(expression: ast.expr) -> str | None:
    import ast

    if not isinstance(expression, ast.Call):
        return None
    name = ast.unparse(expression.func).rsplit(".", 1)[-1]
    first = (
        expression.args[0].value if expression.args and isinstance(expression.args[0], ast.Constant) else None
    )
    if name in _OFF:
        return "on" if name == "inference_mode" and first is False else "off"
    if name == "set_grad_enabled" and isinstance(first, bool):
        return "on" if first else "off"
    return "on" if name == "enable_grad" else None


def grad_state_at(filename: str, line: int) -> str | None:
    """``'off'`` or ``'on'`` when the line stands inside a block that says so (the innermost counts), else None."""
    inside = [(last - first, state) for first, last, state in _blocks(filename) if first <= line <= last]
    return min(inside)[1] if inside else None
