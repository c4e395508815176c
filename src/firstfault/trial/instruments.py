"""A plan names the instruments of its trial, ``'module:function'``; here they are found and entered.

Names keep the layers apart: trials know nothing of operator traces or coverage, which come later in the package.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def enter_all(stack: contextlib.ExitStack, names: Sequence[str], folder: Path, plan: Any) -> None:
    """Enter each instrument as ``function(folder, plan)``; ``stack`` leaves them again, last first."""
    for name in names:
        module, _, function = name.partition(":")
        stack.enter_context(getattr(importlib.import_module(module), function)(folder, plan))
