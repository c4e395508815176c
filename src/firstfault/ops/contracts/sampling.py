"""Parameters of random draws.

Sources: aten/src/ATen/native/cuda/{DistributionTemplates.h,Distributions.cu,MultinomialKernel.cu},
ATen/native/Distributions.cpp, DistributionTemplates.h (assertions: torch 2.14.1; CPU: torch 2.13).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from firstfault.ops.contracts.contract import Arguments, Backend, Suspect, contract, interval


@contract("probability", "bernoulli", "bernoulli_", fault="value_out_of_domain")
def probability(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """bernoulli draws with probabilities, each in ``[0, 1]``; NaN is refused. With ``p`` given, self is only overwritten.

    DistributionTemplates.h ``0 <= p1 && p1 <= 1``, up to p4; a number is checked on the host. Compiled code has no check.
    CPU raises RuntimeError.
    """
    if backend == "inductor" or arguments["self"].numel() == 0:
        return ()
    name = "p" if "p" in arguments else "self"
    return interval(name, arguments[name], 0, 1)


@contract("rate", "poisson", fault="value_out_of_domain")
def rate(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """A rate is not negative; NaN is refused.

    Distributions.cu 'invalid Poisson rate'. CPU raises RuntimeError.
    """
    return interval("self", arguments["self"], 0)


@contract("standard deviation", "normal", "normal_", fault="value_out_of_domain")
def deviation(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """A standard deviation is not negative; NaN is refused.

    A tensor: 'normal expects all elements of std >= 0.0', asserted on CUDA from torch 2.14 on, before that raised on the
    host. A number is checked on the host. CPU raises RuntimeError.
    """
    return interval("std", arguments.get("std", 1.0), 0)


@contract("weights of a draw", "multinomial", fault="value_out_of_domain")
def weights(arguments: Arguments, backend: Backend) -> Iterable[Suspect]:
    """multinomial draws by weights: finite, not negative, and not all zero within a draw.

    MultinomialKernel.cu ``!(val < zero)`` and ``cumdist[size - 1] > 0`` for several draws with replacement, which NaN and
    Inf fail through the sum; else 'probability tensor contains either `inf`, `nan` or element < 0' and 'invalid
    multinomial distribution'. CPU raises RuntimeError.
    """
    tensor = arguments["self"]
    if not tensor.is_floating_point() or tensor.ndim == 0 or tensor.numel() == 0:
        return
    yield Suspect("self", "finite and >= 0", ~(torch.isfinite(tensor) & (tensor >= 0)), tensor)
    empty = torch.zeros_like(tensor, dtype=torch.bool)
    empty[..., 0] = (tensor == 0).all(-1)
    yield Suspect(
        "self", "a sum above 0 in each draw", empty, tensor, note="all weights of these draws are 0"
    )


CONTRACTS = (probability, rate, deviation, weights)
