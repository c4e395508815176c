"""Parameters of random draws.

Sources: aten/src/ATen/native/cuda/{DistributionTemplates.h,MultinomialKernel.cu}, ATen/native/Distributions.cpp (torch
2.13 and 2.14.1). CPU raises RuntimeError for the same inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from firstfault.ops.contracts.contract import Broken, Contract, outside


def probability(arguments: Mapping[str, Any]) -> list[Broken]:
    """bernoulli draws with probabilities: each in [0, 1], NaN refused."""
    name = "p" if isinstance(arguments.get("p"), torch.Tensor) else "self"
    tensor = arguments[name]
    return outside("probability", name, tensor, "[0, 1]", ~((tensor >= 0) & (tensor <= 1)))


def weights(arguments: Mapping[str, Any]) -> list[Broken]:
    """multinomial draws by weights: finite, not negative, and not all zero within a row."""
    tensor = arguments["self"]
    found = outside("weights of a draw", "self", tensor, "finite and >= 0", ~(torch.isfinite(tensor) & (tensor >= 0)))
    if not found and tensor.numel():
        empty = tensor.sum(-1, keepdim=True) <= 0
        found = outside("weights of a draw", "self", tensor, "a positive sum in each row", empty.expand_as(tensor))
    return found


CONTRACTS = (
    Contract(name="probability", operators=("aten.bernoulli",), rule=probability),
    Contract(name="weights of a draw", operators=("aten.multinomial",), rule=weights),
)
