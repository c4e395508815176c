"""A folder imports only from those before it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import firstfault

ROOT = Path(firstfault.__file__).parent
ORDER = [
    "errors",
    "case",
    "record",
    "trial",
    "ops",
    "checks",
    "faults",
    "report",
    "steps",
    "plugins",
    "cli",
    "__main__",
]
LAZY = {"__init__"}  # the package itself names its public parts, and imports them when they are used


def layer_of(parts: tuple[str, ...]) -> str:
    return parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The layers that a file imports from, also inside of functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "firstfault" and len(parts) > 1 and parts[1] in ORDER:
                found.add(parts[1])
    return found


FILES = sorted(path for path in ROOT.rglob("*.py") if layer_of(path.relative_to(ROOT).parts) not in LAZY)


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_a_file_imports_only_from_earlier_layers(path: Path) -> None:
    """Data goes one way: record, case, plan, trial, outcome, finding, report."""
    own = layer_of(path.relative_to(ROOT).parts)
    allowed = set(ORDER[: ORDER.index(own) + 1])
    assert imported(path) <= allowed


def test_every_folder_is_a_layer() -> None:
    """A new folder has its place in the order."""
    folders = {path.parent.relative_to(ROOT).parts[0] for path in ROOT.glob("*/__init__.py")}
    assert folders <= set(ORDER)
