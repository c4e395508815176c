"""firstfault: a failure workbench for PyTorch.

The names below are the whole public Python interface; importing this package imports neither torch nor anything that
only a later step needs.
"""

from __future__ import annotations

from firstfault.errors import ContractError, FirstFaultError, UsageError

__version__ = "0.1.0"
__all__ = ["ContractError", "FirstFaultError", "UsageError", "__version__"]
