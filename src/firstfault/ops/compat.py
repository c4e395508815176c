"""Every private attribute of torch that operator traces rely on, each behind one function.

Versions seen: torch 2.13.0 (CPU). ``tests/ops/test_ops_compat.py`` fails with the name when another version moved it.
"""

from __future__ import annotations

from typing import Any

import torch


def current_autograd_node() -> Any:
    """The node whose backward runs in this thread, or None (torch/csrc/autograd/python_engine.cpp)."""
    return torch._C._current_autograd_node()


def next_sequence_number() -> int:
    """The number that the next autograd node of this thread will have (torch/csrc/autograd/init.cpp)."""
    return torch._C._autograd._get_sequence_nr()


def sequence_number(node: Any) -> int:
    return node._sequence_nr()


def schema_of(operator: Any) -> Any:
    """The schema of an ``OpOverload`` (torch/_ops.py)."""
    return operator._schema
