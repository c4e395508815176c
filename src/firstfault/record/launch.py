"""Run a script or a module in this process as ``python`` itself would.

``__main__``, ``sys.argv`` and ``sys.path[0]`` are what plain python makes them, so pickling and spawned workers find
the script by its path.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import os
import runpy
import sys
import types
from collections.abc import Sequence
from pathlib import Path

from firstfault.case.schema import Fact
from firstfault.errors import UsageError
from firstfault.record.handled import compile_user_code


class Target(Fact, frozen=True, kw_only=True):
    """What to run: a script's path, or a module's name, with its arguments."""

    script: str | None = None
    module: str | None = None
    arguments: tuple[str, ...] = ()


def check(target: Target) -> None:
    """Refuse a script that can't be read before anything is started.

    Raises:
        UsageError: the script is missing, unreadable, or a folder without ``__main__.py``.
    """
    if target.script is None:
        return
    path = Path(target.script)
    if not path.exists():
        raise UsageError(
            f"can't run {target.script}: there is no such file; check the path (the working folder is {os.getcwd()})"
        )
    if path.is_dir() and not (path / "__main__.py").exists():
        raise UsageError(f"can't run {target.script}: it is a folder without a __main__.py; name a script")
    if path.is_file() and not os.access(path, os.R_OK):
        raise UsageError(f"can't run {target.script}: it can't be read; check its permissions")


def execute(target: Target) -> None:
    """Run the target as ``__main__``; whatever it raises goes through."""
    if target.module is not None:
        _execute_module(target.module, target.arguments)
    else:
        assert target.script is not None
        _execute_script(target.script, target.arguments)


def _new_main(**attributes: object) -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__.update({"__builtins__": builtins, "__cached__": None, "__package__": None, **attributes})
    sys.modules["__main__"] = main
    return main


def _put_first_on_path(folder: str) -> None:
    if getattr(sys.flags, "safe_path", False):
        return
    if sys.path and _is_launchers_entry(sys.path[0]):
        sys.path[0] = folder
    else:
        sys.path.insert(0, folder)


_LAUNCHERS_ENTRY: str | None = sys.path[0] if sys.path else None


def _is_launchers_entry(entry: str) -> bool:
    """Whether ``sys.path[0]`` is the one that python made for firstfault's own start."""
    if entry != _LAUNCHERS_ENTRY:
        return False
    here = os.path.realpath(entry or os.getcwd())
    return here in (os.path.realpath(os.getcwd()), os.path.realpath(os.path.dirname(sys.argv[0] or ".")))


def _execute_script(script: str, arguments: Sequence[str]) -> None:
    if os.path.isdir(script) or not _is_source(script):
        sys.argv[:] = [script, *arguments]
        runpy.run_path(script, run_name="__main__")
        return
    _put_first_on_path(os.path.dirname(os.path.realpath(script)))
    path = os.path.abspath(script)
    code = compile_user_code(Path(path).read_bytes(), path)
    sys.argv[:] = [script, *arguments]
    main = _new_main(
        __file__=path, __loader__=importlib.machinery.SourceFileLoader("__main__", path), __spec__=None
    )
    exec(code, main.__dict__)


def _is_source(script: str) -> bool:
    with open(script, "rb") as file:
        return file.read(4) != b"PK\x03\x04" and not script.endswith((".pyc", ".pyz", ".zip"))


def _execute_module(name: str, arguments: Sequence[str]) -> None:
    _put_first_on_path(os.getcwd())
    sys.argv[:] = ["-m", *arguments]
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        spec = None
    if spec is None or spec.loader is None or not hasattr(spec.loader, "get_code"):
        raise UsageError(
            f"can't run -m {name}: there is no such module, or it is a package without __main__; check the name"
        )
    sys.argv[0] = spec.origin or name
    code = spec.loader.get_code(spec.name)
    main = _new_main(__file__=spec.origin, __loader__=spec.loader, __spec__=spec)
    main.__package__ = spec.parent
    exec(code, main.__dict__)
