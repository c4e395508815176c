"""Values as Python source: the shortest text that makes the value again, without a file."""

from __future__ import annotations

import math
import pprint
from typing import Any

import numpy as np
import torch

MAX_ELEMENTS = 4_096  # a larger tensor is not written out element by element
_DEFAULT = {torch.float32, torch.int64, torch.bool}


class NoLiteral(Exception):
    """The value can't be written as source."""


def literal(value: Any) -> str:
    """Source that makes an equal value, with ``torch`` and ``numpy`` imported under their own names.

    Raises:
        NoLiteral: for values of classes of the user's own, open files and the like, or tensors that are too large.
    """
    if isinstance(value, torch.Tensor):
        return tensor_literal(value)
    if isinstance(value, np.ndarray):
        return _array_literal(value)
    if isinstance(value, np.generic):
        return f"numpy.{value.dtype.name}({literal(value.item())})"
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value)
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    if isinstance(value, torch.Size):
        return f"torch.Size({list(value)})"
    if value is None or value is Ellipsis or isinstance(value, (bool, int, str, bytes, complex)):
        return repr(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if isinstance(value, slice):
        return f"slice({literal(value.start)}, {literal(value.stop)}, {literal(value.step)})"
    return _container(value)


def _container(value: Any) -> str:
    if type(value) is list:
        return f"[{', '.join(map(literal, value))}]"
    if type(value) is tuple or (isinstance(value, tuple) and hasattr(value, "_fields")):
        inner = ", ".join(map(literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, dict) and type(value).__module__ in ("builtins", "collections"):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    if type(value) in (set, frozenset):
        return f"set([{', '.join(map(literal, sorted(value, key=repr)))}])"
    raise NoLiteral(f"a value of class {type(value).__name__} can't be written as source")


def _array_literal(array: np.ndarray) -> str:
    if array.size > MAX_ELEMENTS or array.dtype.kind not in "biufU":
        raise NoLiteral(f"an array of {array.size} {array.dtype} can't be written as source")
    if array.size and array.dtype.kind != "U" and (array == array.flat[0]).all():
        return f"numpy.full({array.shape}, {literal(array.flat[0].item())}, dtype={array.dtype.name!r})"
    return f"numpy.array({pprint.pformat(array.tolist(), width=10_000, compact=True)}, dtype={str(array.dtype)!r})"


def tensor_literal(tensor: torch.Tensor) -> str:
    """A tensor as source: dtype, shape, stride, device and requires_grad come back; large ones of one value only."""
    if (
        tensor.layout != torch.strided
        or tensor.is_nested
        or tensor.is_quantized
        or tensor.is_conj()
        or tensor.is_neg()
    ):
        raise NoLiteral(f"a tensor of layout {tensor.layout} can't be written as source")
    dense = tensor.detach()
    strided = not dense.is_contiguous() and dense.numel() > 1
    text = _strided(dense) if strided else _contiguous(dense)
    if not tensor.requires_grad:
        return text
    return f"{text}.requires_grad_()" if strided else f"{text[:-1]}, requires_grad=True)"


def _strided(tensor: torch.Tensor) -> str:
    """A tensor with gaps, overlaps or another order of dimensions."""
    order = sorted(range(tensor.ndim), key=lambda d: -tensor.stride(d))
    straight = tensor.permute(order)
    if straight.is_contiguous():
        back = [order.index(d) for d in range(tensor.ndim)]
        if tensor.ndim == 2:
            return f"{_contiguous(straight)}.t()"
        return f"{_contiguous(straight)}.permute({', '.join(map(str, back))})"
    squeezed = tensor
    for d in range(tensor.ndim):
        if tensor.stride(d) == 0:
            squeezed = squeezed.narrow(d, 0, 1)
    if squeezed.is_contiguous():
        return f"{_contiguous(squeezed)}.expand({', '.join(map(str, tensor.shape))})"
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    flat = tensor.as_strided((span,), (1,))
    return f"{_contiguous(flat)}.as_strided({tuple(tensor.shape)}, {tensor.stride()})"


def _contiguous(tensor: torch.Tensor) -> str:
    dtype = "" if tensor.dtype in _DEFAULT else f", dtype={tensor.dtype}"
    device = "" if tensor.device.type == "cpu" else f', device="{tensor.device}"'
    shape = ", ".join(map(str, tensor.shape))
    if tensor.device.type == "meta":
        return f"torch.empty({shape or '()'}{dtype}{device})"
    if tensor.numel() == 0:
        explicit = dtype if tensor.dtype == torch.float32 or dtype else f", dtype={tensor.dtype}"
        return f"torch.empty({shape}{explicit}{device})"
    first = tensor.flatten()[0]
    if (tensor.numel() > 1 or tensor.ndim > 1) and bool((tensor == first).all()):
        return _filled(tensor, first.item(), shape, dtype, device)
    if tensor.numel() > MAX_ELEMENTS:
        raise NoLiteral(f"a tensor of {tensor.numel()} different elements is too large to be written out")
    elements = (
        tensor.cpu().tolist()
        if tensor.dtype not in (torch.bfloat16, torch.float16)
        else tensor.float().cpu().tolist()
    )
    text = _elements(elements, tensor.dtype)
    return f"torch.tensor({text}{dtype}{device})"


def _filled(tensor: torch.Tensor, value: Any, shape: str, dtype: str, device: str) -> str:
    explicit = dtype or ("" if tensor.dtype == torch.float32 else f", dtype={tensor.dtype}")
    if value == 0 and not isinstance(value, bool):
        return f"torch.zeros({shape}{explicit}{device})"
    if value == 1 and not isinstance(value, bool):
        return f"torch.ones({shape}{explicit}{device})"
    return f"torch.full(({shape}{',' if tensor.ndim == 1 else ''}), {literal(value)}{explicit}{device})"


def _elements(value: Any, dtype: torch.dtype) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_elements(item, dtype) for item in value)}]"
    if isinstance(value, float):
        return _short_float(value, dtype)
    return repr(value)


def _short_float(value: float, dtype: torch.dtype) -> str:
    """The shortest decimal that rounds to the same element."""
    if not math.isfinite(value):
        return f'float("{value}")'
    if dtype == torch.float64:
        return repr(value)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if torch.tensor(float(text), dtype=dtype).item() == value:
            return text if "." in text or "e" in text else f"{text}."
    return repr(value)
