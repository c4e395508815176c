"""Rows of embedding tables.

Sources: aten/src/ATen/native/cuda/{Embedding,EmbeddingBag}.cu, ATen/native/{Embedding,EmbeddingBag}.cpp (torch 2.13 and
2.14.1). CPU raises IndexError or RuntimeError for the same inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firstfault.ops.contracts.contract import Broken, Contract, index_domain


def row(arguments: Mapping[str, Any]) -> list[Broken]:
    """``0 <= index < weight.size(0)``; padding_idx is an index like any other."""
    return index_domain("row of the table", "indices", arguments["indices"], arguments["weight"].size(0), negative=False)


CONTRACTS = (
    Contract(
        name="row of the table",
        operators=("aten.embedding", "aten._embedding_bag", "aten._embedding_bag_forward_only"),
        rule=row,
    ),
)
