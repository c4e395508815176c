"""Act as soon as the script has imported torch, and not before: firstfault never decides when torch starts."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any


def when_torch_is_imported(act: Callable[[], None]) -> None:
    """Call ``act`` now if torch is loaded, else right after it has been imported (once)."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "utils"):
        act()
        return
    sys.meta_path.insert(0, _TorchFinder(act))


class _TorchFinder:
    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _TorchLoader(spec.loader, self.act)  # type: ignore[assignment]
        return spec


class _TorchLoader:
    """torch's own loader, followed by one call."""

    def __init__(self, loader: Any, act: Callable[[], None]) -> None:
        self.loader = loader
        self.act = act

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.act()
