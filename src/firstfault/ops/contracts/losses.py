"""Targets of losses.

Sources: aten/src/ATen/native/cuda/{Loss,NLLLoss2d,MultiMarginLoss}.cu, ATen/native/{LossNLL,LossNLL2d,Loss}.cpp (torch
2.13 and 2.14.1). CPU raises for the same inputs; with reduction 'none' CUDA's 2-d kernel skips a bad target silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firstfault.ops.contracts.contract import Broken, Contract, index_domain, outside


def class_index(arguments: Mapping[str, Any]) -> list[Broken]:
    """``0 <= target < C`` or ``target == ignore_index``.

    C is the last dimension's extent of a 1-d input (one sample), else the second dimension's.
    """
    scores = arguments["self"]
    classes = scores.size(0) if scores.ndim == 1 else scores.size(1)
    return index_domain(
        "class index", "target", arguments["target"], classes, negative=False, ignored=arguments.get("ignore_index", -100)
    )


def margin_class_index(arguments: Mapping[str, Any]) -> list[Broken]:
    """``0 <= target < C`` for multi_margin_loss, which knows no ignore_index."""
    scores = arguments["self"]
    return index_domain("class index", "target", arguments["target"], scores.size(-1), negative=False)


def probability(arguments: Mapping[str, Any]) -> list[Broken]:
    """binary_cross_entropy takes probabilities: input and target in [0, 1]; NaN is refused on CUDA and CPU alike.

    The target has been checked on CPU since torch 2.10; CUDA checks the input alone.
    """
    found: list[Broken] = []
    for name in ("self", "target"):
        tensor = arguments[name]
        if tensor.is_floating_point():
            note = None if name == "self" else "CUDA doesn't check the target"
            found += outside("probability", name, tensor, "[0, 1]", ~((tensor >= 0) & (tensor <= 1)), note=note)
    return found


CONTRACTS = (
    Contract(
        name="class index",
        operators=("aten.nll_loss_forward", "aten.nll_loss2d_forward", "aten.nll_loss_backward", "aten.nll_loss2d_backward"),
        rule=class_index,
    ),
    Contract(name="class index", operators=("aten.multi_margin_loss",), rule=margin_class_index),
    Contract(name="probability", operators=("aten.binary_cross_entropy",), rule=probability),
)
