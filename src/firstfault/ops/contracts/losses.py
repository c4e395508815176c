"""Targets of losses, and probabilities that are compared.

Sources: aten/src/ATen/native/cuda/{Loss,NLLLoss2d,MultiMarginLoss,MultiLabelMarginCriterion}.cu,
ATen/native/{LossNLL,LossNLL2d,Loss,LossMultiMargin,LossMultiLabelMargin}.cpp (assertions: torch 2.14.1; CPU: torch 2.13).
"""

from __future__ import annotations

from collections.abc import Iterable

from firstfault.ops.contracts.contract import (
    Arguments,
    Backend,
    Suspect,
    contract,
    fits_32_bits,
    index_domain,
    interval,
    size_along,
)

_REDUCTION_NONE = 0  # torch.nn._reduction


@contract(
    "class index",
    *("nll_loss", "nll_loss_forward", "nll_loss_backward", "nll_loss_nd", "cross_entropy_loss"),
    *("nll_loss2d", "nll_loss2d_forward", "nll_loss2d_backward"),
)
def class_index(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """``0 <= target < C`` or ``target == ignore_index``; class probabilities, a floating target, have no such rule.

    C is the extent of the second dimension, of the only one for a single sample. Loss.cu and NLLLoss2d.cu
    ``t >= 0 && t < n_classes`` and ``cur_target >= 0 && …``; for a uint8 target ``t < n_classes``. The 2-d forward kernel
    that reduces sees int64 values cut to 32 bits, also when it compares them with ignore_index. CPU raises IndexError,
    but for a backward that doesn't reduce, which writes outside of the gradient.
    """
    scores = arguments["self"]
    classes = scores.size(1) if scores.ndim > 1 else size_along(scores, 0)
    spatial = scores.ndim == 4 and "grad_output" not in arguments
    cut = backend == "cuda" and spatial and arguments["reduction"] != _REDUCTION_NONE and fits_32_bits(scores)
    return index_domain(
        "target",
        arguments["target"],
        classes,
        ignored=arguments.get("ignore_index", -100),
        bits=32 if cut else 64,
    )


@contract("class index", "multi_margin_loss", "multi_margin_loss_backward")
def margin_class_index(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """``0 <= target < C``; there is no ignore_index.

    MultiMarginLoss.cu 'target index is out of bounds', which sees int64 values cut to 32 bits; the backward kernel reads
    and writes outside of its memory without a check. CPU raises RuntimeError in both.
    """
    scores = arguments["self"]
    if scores.numel() == 0:
        return ()
    bits = 32 if backend == "cuda" else 64
    return index_domain("target", arguments["target"], size_along(scores, -1), bits=bits)


@contract(
    "class index",
    "multilabel_margin_loss",
    "multilabel_margin_loss_forward",
    "multilabel_margin_loss_backward",
)
def margin_class_indices(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """``-1 <= target < C`` in each row, where -1 ends the list of a row's classes.

    CUDA has no check: up to the first negative value of a row, what is too large is read outside of the row. CPU raises
    RuntimeError, also for values after the end of a list.
    """
    scores, target = arguments["self"], arguments["target"]
    classes = size_along(scores, -1)
    if scores.numel() == 0:
        return
    only = None
    if backend != "cpu" and target.ndim:
        only = (target < 0).cumsum(-1) == 0
    yield from index_domain("target", target, classes, ignored=-1, only=only)


@contract("probability", "binary_cross_entropy", fault="value_out_of_domain")
def probability(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """Input and target are probabilities, in ``[0, 1]``; NaN is refused.

    Loss.cu ``input_val >= zero && input_val <= one`` and ``target_val >= …``. Compiled code has no check, nor has
    ``binary_cross_entropy_with_logits``. CPU raises RuntimeError.
    """
    if backend == "inductor":
        return
    yield from interval("self", arguments["self"], 0, 1)
    yield from interval("target", arguments["target"], 0, 1)


CONTRACTS = (class_index, margin_class_index, margin_class_indices, probability)
