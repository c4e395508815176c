"""firstfault: a failure workbench for PyTorch.

The names below are the whole public Python interface; importing this package imports neither torch nor
anything that only a later step needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firstfault.errors import ContractError, FirstFaultError, UsageError

if TYPE_CHECKING:
    from firstfault import checks
    from firstfault.ops.guard import guard
    from firstfault.record.inline import record

__version__ = "0.1.0"
__all__ = ["ContractError", "FirstFaultError", "UsageError", "__version__", "checks", "guard", "record"]

_LAZY = {
    "checks": ("firstfault.checks", None),
    "guard": ("firstfault.ops.guard", "guard"),
    "record": ("firstfault.record.inline", "record"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'firstfault' has no attribute {name!r}")
    import importlib

    module, attribute = _LAZY[name]
    loaded = importlib.import_module(module)
    return loaded if attribute is None else getattr(loaded, attribute)
