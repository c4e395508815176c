"""Exceptions that the user's own code handles: a failure that a script swallows is still the first one.

Python 3.12 and newer tell through ``sys.monitoring`` (PEP 669), at no cost until something is raised. Python 3.11 has
no such thing, so there the user's own modules are compiled with one call at the head of each ``except`` block; the
file on disk, the line numbers and what the code does stay the same.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from firstfault.record.frames import owner_of

if TYPE_CHECKING:
    import ast

Handler = Callable[[BaseException], None]

_HOOK = "__firstfault_handled__"  # lives in builtins, so that no module's names change
_TOOL = 4  # sys.monitoring reserves 0 debugger, 1 coverage, 2 profiler, 5 optimizer (PEP 669)
BY_MONITORING = sys.version_info >= (3, 12)


def watch(handler: Handler) -> Callable[[], None]:
    """Call ``handler(error)`` whenever the user's own code handles an exception; the result undoes it."""
    return _watch_by_monitoring(handler) if BY_MONITORING else _watch_by_compiling(handler)


def _watch_by_monitoring(handler: Handler) -> Callable[[], None]:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    if monitoring.get_tool(_TOOL) is not None:
        return lambda: None
    monitoring.use_tool_id(_TOOL, "firstfault")

    def handled(code: types.CodeType, _: int, error: BaseException) -> None:
        if owner_of(code.co_filename) == "user":
            handler(error)

    monitoring.register_callback(_TOOL, monitoring.events.EXCEPTION_HANDLED, handled)
    monitoring.set_events(_TOOL, monitoring.events.EXCEPTION_HANDLED)

    def unwatch() -> None:
        monitoring.set_events(_TOOL, 0)
        monitoring.register_callback(_TOOL, monitoring.events.EXCEPTION_HANDLED, None)
        monitoring.free_tool_id(_TOOL)

    return unwatch


def _watch_by_compiling(handler: Handler) -> Callable[[], None]:
    import builtins

    def handled() -> None:
        error = sys.exc_info()[1]
        if error is not None:
            handler(error)

    suppress_exit = contextlib.suppress.__exit__

    def __exit__(self: Any, kind: Any, error: Any, traceback: Any) -> Any:
        suppressed = suppress_exit(self, kind, error, traceback)
        if suppressed and owner_of(sys._getframe(1).f_code.co_filename) == "user":
            handler(error)
        return suppressed

    setattr(builtins, _HOOK, handled)
    contextlib.suppress.__exit__ = __exit__  # type: ignore[method-assign]
    finder = _UserModules()
    sys.meta_path.insert(0, finder)

    def unwatch() -> None:
        contextlib.suppress.__exit__ = suppress_exit  # type: ignore[method-assign]
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        setattr(builtins, _HOOK, lambda: None)  # modules compiled with the call go on calling it

    return unwatch


def compile_user_code(source: bytes | str, filename: str) -> types.CodeType:
    """Compile a user's module; on Python 3.11 with the call that tells of handled exceptions.

    Raises what ``compile`` raises, for the source as it is.
    """
    if BY_MONITORING or b"except" not in (source if isinstance(source, bytes) else source.encode()):
        return compile(source, filename, "exec", dont_inherit=True)
    import ast  # only scripts with an except block need it

    tree = ast.parse(source, filename)
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.body:
            node.body.insert(0, _call_at(node.body[0]))
    return compile(tree, filename, "exec", dont_inherit=True)


def _call_at(place: ast.stmt) -> ast.stmt:
    import ast

    call = ast.Expr(ast.Call(ast.Name(_HOOK, ast.Load()), [], []))
    for node in ast.walk(call):
        ast.copy_location(node, place)
    return call


class _UserModules:
    """Finds the user's own modules like Python does, and has them compiled by :func:`compile_user_code`."""

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return None
        if spec.origin is None or owner_of(spec.origin) != "user":
            return None
        spec.loader = _Loader(name, spec.origin)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles from source and leaves Python's cache of byte code alone, in both directions."""

    def get_code(self, fullname: str) -> types.CodeType | None:
        path = self.get_filename(fullname)
        return compile_user_code(self.get_data(path), path)
