"""The user's own failing statement as a program: its source, the values of its names, the definitions it needs."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import textwrap
import types
from dataclasses import dataclass
from typing import Any

import torch

from firstfault.ops.literal import NoLiteral, literal
from firstfault.record.frames import owner_of

_MAX_DEFINITIONS = 40  # functions, classes and constants that are written in front


@dataclass(frozen=True)
class Statement:
    """A statement's source with all that it needs to run on its own."""

    source: str
    imports: tuple[str, ...]
    definitions: str
    values: dict[str, Any]


def failing_statement(frame: types.FrameType, line: int) -> Statement | None:
    """The statement at a line of a running function, or None.

    A ``raise`` or ``assert`` comes with the ``if`` around it, since its condition is what failed.
    """
    tree = _tree(frame.f_code.co_filename)
    statement = _statement_at(tree, line) if tree is not None else None
    if statement is None:
        return None
    needed = _Needed({**frame.f_globals, **frame.f_locals})
    needed.read(statement)
    source = ast.unparse(needed.rewritten(statement))
    imports = tuple(sorted({text for text in needed.imports.values() if text != "import torch"}))
    return Statement(source, imports, "\n".join(needed.sources.values()), needed.values)


def definitions_of(function: Any) -> Statement | None:
    """A user's function with what it needs; ``source`` is the name by which it is then known. None when it has no source."""
    name = getattr(function, "__name__", "")
    code = getattr(function, "__code__", None)
    if code is None or not name.isidentifier():
        return None
    needed = _Needed({**function.__globals__, **_closure(function), name: function})
    needed._name(name)
    if name not in needed.sources and name not in needed.imports:
        return None
    imports = tuple(sorted({text for text in needed.imports.values() if text != "import torch"}))
    return Statement(name, imports, "\n".join(needed.sources.values()), needed.values)


def _closure(function: Any) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    return {name: cell.cell_contents for name, cell in cells}


def _tree(filename: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError):
        return None


def _statement_at(tree: ast.Module, line: int) -> ast.stmt | None:
    """The innermost simple statement at a line, or the ``if`` that guards a raise there."""
    parents: dict[ast.AST, ast.AST] = {
        child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)
    }
    holding = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if not holding:
        return None
    statement = min(
        holding, key=lambda node: ((node.end_lineno or node.lineno) - node.lineno, -node.col_offset)
    )
    if isinstance(statement, ast.Raise):
        above: ast.AST | None = parents.get(statement)
        if isinstance(above, ast.If):
            return ast.If(test=above.test, body=[statement], orelse=[])
        return None
    if isinstance(statement, (ast.Return, ast.Expr)):
        return ast.Expr(value=statement.value) if statement.value is not None else None
    if isinstance(statement, (ast.For, ast.While, ast.With, ast.If, ast.Try)):
        expression = getattr(statement, "iter", None) or getattr(statement, "test", None)
        return ast.Expr(value=expression) if expression is not None else None
    return (
        None
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom))
        else statement
    )


class _Needed:
    """What a statement needs: values of names and of attributes, imports, and definitions of the user's own."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.values: dict[str, Any] = {}
        self.replaced: dict[str, str] = {}
        self.imports: dict[str, str] = {}
        self.sources: dict[str, str] = {}

    def read(self, node: ast.AST) -> None:
        bound = {
            each.id
            for each in ast.walk(node)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        arguments = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
        for attribute in ast.walk(node):
            if isinstance(attribute, ast.Attribute):
                self._attribute(attribute)
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.id not in arguments:
                if each.id in bound and each.id not in self.names:
                    continue
                self._name(each.id)

    def _attribute(self, node: ast.Attribute) -> None:
        """``self.width`` is taken as a value of its own: the object need not be built."""
        text = ast.unparse(node)
        root = text.split(".")[0]
        if (
            root not in self.names
            or isinstance(self.names[root], types.ModuleType)
            or not all(part.isidentifier() for part in text.split("."))
        ):
            return
        if _writable(self.names[root]):
            return
        found: Any = self.names[root]
        for part in text.split(".")[1:]:
            found = getattr(found, part, None)
        if _writable(found):
            name = text.replace(".", "_")
            self.values[name] = found
            self.replaced[text] = name

    def _name(self, name: str) -> None:
        if name not in self.names:
            return
        value = self.names[name]
        if isinstance(value, types.ModuleType):
            self.imports[name] = (
                f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}"
            )
        elif isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            self._definition(name, value)
        elif _writable(value):
            self.values[name] = value

    def _definition(self, name: str, value: Any) -> None:
        if (
            getattr(builtins, name, None) is value
            or name in self.sources
            or len(self.sources) >= _MAX_DEFINITIONS
        ):
            return
        module = getattr(value, "__module__", None) or ""
        filename = getattr(inspect.getmodule(value), "__file__", None) or ""
        if module == "__main__" or (filename and owner_of(filename) == "user"):
            try:
                source = textwrap.dedent(inspect.getsource(value))
            except (OSError, TypeError):
                return
            self.sources[name] = ""
            inner = _Needed.__new__(_Needed)
            inner.__dict__.update(self.__dict__)
            inner.names = {**getattr(value, "__globals__", self.names), **self.names}
            inner.read(ast.parse(source))
            del self.sources[name]
            self.sources[name] = source
        elif hasattr(value, "__qualname__") and module:
            imported = value.__qualname__
            if "." not in imported:
                self.imports[name] = f"from {module} import {imported}" + (
                    f" as {name}" if imported != name else ""
                )

    def rewritten(self, statement: ast.stmt) -> ast.stmt:
        replaced = self.replaced

        class Rewrite(ast.NodeTransformer):
            def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
                name = replaced.get(ast.unparse(node))
                return ast.copy_location(ast.Name(name, node.ctx), node) if name else self.generic_visit(node)

        used = Rewrite().visit(statement)
        names = {each.id for each in ast.walk(used) if isinstance(each, ast.Name)}
        self.values = {
            name: value
            for name, value in self.values.items()
            if name in names or any(name in source for source in self.sources.values())
        }
        return used


def _writable(value: Any) -> bool:
    """Whether a value can stand in a program as it is. Tensors can, in a reduced form at the latest."""
    if isinstance(value, torch.Tensor):
        return value.layout == torch.strided and not value.is_nested
    if isinstance(value, (types.ModuleType, type, types.FunctionType, types.MethodType)):
        return False
    try:
        literal(value)
    except (NoLiteral, RecursionError):
        return isinstance(value, (list, tuple, dict)) and all(
            _writable(item) for item in (value.values() if isinstance(value, dict) else value)
        )
    return True
