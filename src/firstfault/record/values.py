"""Values of any batch, on disk and back, without pickle: NAME.json for the structure, NAME.safetensors for the bytes.

A tensor is kept as a view (dtype, shape, stride, offset) of a span of its storage, so strides and aliases survive, and
only the bytes that the views need are written: a slice of a large tensor never takes its neighbours along. Opening one
runs no code and imports nothing; classes of the user's come back only through a lookup that the caller gives.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from firstfault.case.schema import Fact, Leaf
from firstfault.errors import UsageError

MAX_DEPTH = 32  # of nested containers; deeper ones are cut off
MAX_LEAVES = 20_000  # tensors of one batch that are described one by one
MAX_STRUCTURE_BYTES = 64 * 2**20  # of NAME.json when it is read
_SPECIAL = (
    "tensor",
    "array",
    "text",
    "plain",
    "list",
    "tuple",
    "dict",
    "object",
    "bytes",
    "cut",
    "sparse",
    "nested",
)

# Classes of torch's own that batches are made of; they need no lookup.
_OWN_CLASSES = {"torch.nn.utils.rnn:PackedSequence": torch.nn.utils.rnn.PackedSequence}

Lookup = Callable[[str], Any]


class View(Fact, frozen=True, kw_only=True):
    """One tensor: a view of a storage span. ``offset`` counts elements from the span's start."""

    storage: str
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    device: str
    requires_grad: bool = False
    conj: bool = False
    neg: bool = False
    array: bool = False


class Kept(Fact, frozen=True, kw_only=True):
    """NAME.json."""

    format: int = 1
    structure: Any
    views: tuple[View, ...]


# ---- description -----------------------------------------------------------------------------------------------------


def describe_batch(value: Any) -> dict[str, Any]:
    """Leaves, structure and digest of a batch, as fields of :class:`firstfault.case.schema.Batch`.

    Nothing on a device is read: a batch with a tensor elsewhere than in host memory has no digest.
    """
    walk = _Walk()
    structure = walk.node(value, "", 0)
    hashed = hashlib.sha256(json.dumps(structure, sort_keys=True, default=str).encode())
    complete = True
    leaves = []
    for path, tensor in walk.tensors:
        digest = tensor_digest(tensor)
        complete = complete and digest is not None
        hashed.update((digest or "").encode())
        leaves.append(
            Leaf(
                path=path,
                shape=tuple(tensor.shape),
                dtype=_name(tensor.dtype),
                device=str(tensor.device),
                stride=tuple(tensor.stride())
                if tensor.layout == torch.strided and not tensor.is_nested
                else None,
                digest=digest,
                layout=_name(tensor.layout),
            )
        )
    return {
        "leaves": tuple(leaves),
        "structure": structure,
        "digest": hashed.hexdigest() if complete else None,
    }


def tensor_digest(tensor: torch.Tensor) -> str | None:
    """SHA-256 over dtype, shape and the elements in logical order; None for a tensor that isn't in host memory."""
    if tensor.device.type != "cpu":
        return None
    parts = _dense_parts(tensor)
    if parts is None:
        return None
    hashed = hashlib.sha256(
        f"{_name(tensor.dtype)}{tuple(tensor.shape) if not tensor.is_nested else ''}".encode()
    )
    for part in parts:
        flat = part.detach().resolve_conj().resolve_neg().reshape(-1).contiguous()
        if flat.numel():
            hashed.update(flat.view(torch.uint8).numpy().data)
    return hashed.hexdigest()


def _dense_parts(tensor: torch.Tensor) -> list[torch.Tensor] | None:
    """The dense tensors that make up a tensor of any layout; None for layouts without such parts."""
    if tensor.is_nested:
        return list(tensor.unbind())
    if tensor.layout == torch.strided:
        return None if tensor.is_quantized else [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return None


def _name(kind: Any) -> str:
    return str(kind).removeprefix("torch.")


class _Walk:
    """Turns a value into a JSON structure with its tensors taken out, in a stable order."""

    def __init__(self) -> None:
        self.tensors: list[tuple[str, torch.Tensor]] = []
        self.arrays: set[int] = set()

    def node(self, value: Any, path: str, depth: int) -> Any:
        if depth > MAX_DEPTH or len(self.tensors) > MAX_LEAVES:
            return {"cut": type(value).__name__}
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path)
        if value is None or isinstance(value, (bool, int, str)):
            return {"plain": value} if not _beyond_json(value) else {"integer": str(value)}
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if type(value).__module__ == "numpy":
            return self._numpy(value, path)
        return self._container(value, path, depth + 1)

    def _tensor(self, value: torch.Tensor, path: str) -> Any:
        number = len(self.tensors)
        self.tensors.append((path, value))
        if value.is_nested or value.layout != torch.strided:
            return {
                "special": number,
                "layout": "nested" if value.is_nested else _name(value.layout),
                "shape": [] if value.is_nested else list(value.shape),
            }
        return {"tensor": number}

    def _numpy(self, value: Any, path: str) -> Any:
        if getattr(value, "dtype", None) is not None and value.dtype.kind in "biufc":
            try:
                tensor = torch.from_numpy(value) if value.ndim else torch.as_tensor(value)
            except (TypeError, ValueError):
                tensor = (
                    torch.from_numpy(value.copy())
                    if value.dtype.kind in "biufc" and value.dtype.itemsize <= 8
                    else None
                )
            if tensor is not None:
                self.arrays.add(len(self.tensors))
                self.tensors.append((path, tensor))
                return {
                    "array": len(self.tensors) - 1,
                    "scalar": value.ndim == 0 and type(value).__name__ != "ndarray",
                }
        if hasattr(value, "tolist"):
            return {"numpy": json.loads(json.dumps(value.tolist(), default=str)), "dtype": str(value.dtype)}
        return {"cut": type(value).__name__}

    def _container(self, value: Any, path: str, depth: int) -> Any:
        if isinstance(value, Mapping):
            items = [[_key(key), self.node(item, f"{path}[{key!r}]", depth)] for key, item in value.items()]
            return {"dict": items, **_class_of(value, dict, OrderedDict, defaultdict)}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            items = [
                self.node(item, f"{path}.{field}", depth)
                for field, item in zip(value._fields, value, strict=True)
            ]
            return {"tuple": items, "fields": list(value._fields), **_class_of(value)}
        if isinstance(value, (list, tuple)):
            items = [self.node(item, f"{path}[{number}]", depth) for number, item in enumerate(value)]
            return {"list" if isinstance(value, list) else "tuple": items, **_class_of(value, list, tuple)}
        if isinstance(value, (set, frozenset)):
            return {"set": [self.node(item, path, depth) for item in sorted(value, key=repr)]}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
        else:
            names = list(getattr(value, "__dict__", {}))
        if not names or isinstance(value, type) or callable(value):
            return {"cut": type(value).__name__}
        items = [[name, self.node(getattr(value, name), f"{path}.{name}", depth)] for name in names]
        return {"object": items, **_class_of(value)}


def _beyond_json(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63


def _key(key: Any) -> Any:
    return key if isinstance(key, (str, int, bool)) or key is None else {"text": str(key)}


def _class_of(value: Any, *plain: type) -> dict[str, str]:
    kind = type(value)
    return {} if kind in plain else {"class": f"{kind.__module__}:{kind.__qualname__}"}


# ---- keeping ---------------------------------------------------------------------------------------------------------


def save_values(value: Any, folder: Path, name: str, max_bytes: int) -> bool:
    """Keep a value below ``folder`` as NAME.json and NAME.safetensors.

    Returns False, with nothing written, when its bytes are more than ``max_bytes`` or a tensor isn't in host memory.

    Raises:
        OSError: the folder can't be written.
    """
    walk = _Walk()
    structure = walk.node(value, "", 0)
    spans = _Spans(max_bytes)
    views = []
    for number, (_, tensor) in enumerate(walk.tensors):
        parts = _dense_parts(tensor)
        if parts is None or tensor.device.type != "cpu":
            return False
        views.append([spans.view(part, number in walk.arrays) for part in parts])
    spans.close()
    if spans.bytes > max_bytes:
        return False
    structure = _with_view_numbers(structure, views)
    flat = tuple(spans.finished(view) for each in views for view in each)
    save_file(spans.tensors(), folder / f"{name}.safetensors")
    (folder / f"{name}.json").write_bytes(msgspec.json.encode(Kept(structure=structure, views=flat)))
    return True


def _with_view_numbers(structure: Any, views: list[list[View]]) -> Any:
    """Replace tensor numbers by the numbers of their views; a tensor of a special layout has several."""
    starts, total = [], 0
    for each in views:
        starts.append(total)
        total += len(each)

    def renumber(node: Any) -> Any:
        if isinstance(node, list):
            return [renumber(item) for item in node]
        if not isinstance(node, dict):
            return node
        for kind in ("tensor", "array"):
            if kind in node:
                return {**node, kind: starts[node[kind]]}
        if "special" in node:
            first = starts[node["special"]]
            return {**node, "special": list(range(first, first + len(views[node["special"]])))}
        return {key: renumber(item) for key, item in node.items()}

    return renumber(structure)


class _Spans:
    """The spans of storage that the views need, each written once."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.needed: dict[int, tuple[torch.UntypedStorage, int, int]] = {}
        self.names: dict[int, str] = {}
        self.bytes = 0

    def view(self, tensor: torch.Tensor, array: bool) -> View:
        storage = tensor.untyped_storage()
        key = storage.data_ptr() if storage.nbytes() else id(storage)
        size = tensor.element_size()
        first = tensor.storage_offset() * size
        last = (
            first
            if tensor.numel() == 0
            else first
            + size * (1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)))
        )
        _, low, high = self.needed.get(key, (storage, first, last))
        self.needed[key] = (storage, min(low, first), max(high, last))
        return View(
            storage=str(key),
            dtype=_name(tensor.dtype),
            shape=tuple(tensor.shape),
            stride=tuple(tensor.stride()),
            offset=tensor.storage_offset(),
            device=str(tensor.device),
            requires_grad=tensor.requires_grad,
            conj=tensor.is_conj(),
            neg=tensor.is_neg(),
            array=array,
        )

    def close(self) -> None:
        self.bytes = sum(high - low for _, low, high in self.needed.values())

    def tensors(self) -> dict[str, torch.Tensor]:
        """The spans as byte tensors, named by what is in them."""
        found = {}
        for key, (storage, low, high) in self.needed.items():
            span = torch.empty(0, dtype=torch.uint8).set_(storage, low, (high - low,)).clone()  # type: ignore[call-overload]
            name = hashlib.sha256(span.numpy().data).hexdigest() if high > low else "empty"
            self.names[key] = name
            found[name] = span
        return found

    def finished(self, view: View) -> View:
        key = int(view.storage)
        _, low, _ = self.needed[key]
        if key not in self.names:
            self.tensors()
        size = _dtype(view.dtype).itemsize
        return msgspec.structs.replace(view, storage=self.names[key], offset=view.offset - low // size)


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise UsageError(f"the kept values are damaged: there is no dtype {name!r}; use --batch ids")
    return found


# ---- loading ---------------------------------------------------------------------------------------------------------


def load_values(folder: Path, name: str, trusted_classes: Lookup | None = None) -> Any:
    """Build kept values again.

    Args:
        trusted_classes: finds a class by ``'module:Name'``, or gives None; without it, objects of the user's own
            classes come back as plain namespaces, named tuples as tuples and mappings as dicts.

    Raises:
        UsageError: the files are missing or damaged.
    """
    path = folder / f"{name}.json"
    try:
        if path.stat().st_size > MAX_STRUCTURE_BYTES:
            raise UsageError(f"{path} is damaged: {path.stat().st_size:,} bytes; use --batch ids")
        kept = msgspec.json.decode(path.read_bytes(), type=Kept)
        with safe_open(folder / f"{name}.safetensors", framework="pt") as file:
            spans = {key: file.get_tensor(key) for key in {view.storage for view in kept.views}}
        tensors = [_tensor(view, spans) for view in kept.views]
        return _build(kept.structure, tensors, kept.views, trusted_classes, 0)
    except OSError as error:
        raise UsageError(
            f"the kept values in {folder} can't be read: {error.strerror or error}; use --batch ids"
        ) from None
    except (
        msgspec.MsgspecError,
        SafetensorError,
        KeyError,
        ValueError,
        TypeError,
        IndexError,
        RuntimeError,
        struct.error,
    ) as error:
        raise UsageError(f"the kept values in {folder} are damaged: {error}; use --batch ids") from None


def _tensor(view: View, spans: dict[str, torch.Tensor]) -> torch.Tensor:
    span = spans[view.storage]
    dtype = _dtype(view.dtype)
    if any(n < 0 for n in (*view.shape, *view.stride, view.offset)):
        raise ValueError("negative size, stride or offset")
    end = view.offset + 1 + sum((n - 1) * s for n, s in zip(view.shape, view.stride, strict=True))
    if 0 not in view.shape and end * dtype.itemsize > span.numel():
        raise ValueError("a view reaches beyond its storage")
    if 0 in view.shape:
        built = torch.empty_strided(view.shape, view.stride, dtype=dtype)
    else:
        built = torch.empty(0, dtype=dtype).set_(span.untyped_storage(), view.offset, view.shape, view.stride)  # type: ignore[call-overload]
    built = torch._neg_view(built) if view.neg else built
    built = built.conj() if view.conj else built
    return built.requires_grad_() if view.requires_grad else built


def _build(
    node: Any, tensors: list[torch.Tensor], views: tuple[View, ...], lookup: Lookup | None, depth: int
) -> Any:
    if depth > MAX_DEPTH + 1 or not isinstance(node, dict):
        raise ValueError("the structure is not one that firstfault writes")

    def build(item: Any) -> Any:
        return _build(item, tensors, views, lookup, depth + 1)

    if "plain" in node:
        return node["plain"]
    if "integer" in node:
        return int(node["integer"])
    if "float" in node:
        return float.fromhex(node["float"])
    if "bytes" in node:
        return bytes.fromhex(node["bytes"])
    if "tensor" in node:
        return tensors[node["tensor"]]
    if "array" in node:
        array = tensors[node["array"]].numpy()
        return array[()] if node.get("scalar") else array
    if "special" in node:
        return _special([tensors[number] for number in node["special"]], node)
    if "numpy" in node:
        import numpy as np

        return np.array(node["numpy"], dtype=node["dtype"] if node["dtype"] != "object" else object)
    return _build_container(node, build, lookup)


def _special(parts: list[torch.Tensor], node: dict[str, Any]) -> torch.Tensor:
    layout, shape = node["layout"], node["shape"]
    if layout == "nested":
        return torch.nested.nested_tensor(parts, layout=torch.strided)
    if layout == "sparse_coo":
        return torch.sparse_coo_tensor(parts[0], parts[1], shape, check_invariants=True)
    return torch.sparse_compressed_tensor(
        *parts, size=shape, layout=getattr(torch, layout), check_invariants=True
    )


def _build_container(node: dict[str, Any], build: Callable[[Any], Any], lookup: Lookup | None) -> Any:
    name = str(node.get("class", ""))
    kind = _OWN_CLASSES.get(name)
    if kind is None and lookup is not None and name:
        kind = lookup(name)
    if "dict" in node:
        items = {_built_key(key): build(item) for key, item in node["dict"]}
        return _made(kind, items) if kind is not None else items
    if "fields" in node:
        values = [build(item) for item in node["tuple"]]
        return kind(*values) if kind is not None else tuple(values)
    if "tuple" in node:
        values = [build(item) for item in node["tuple"]]
        return kind(values) if kind is not None else tuple(values)
    if "list" in node:
        values = [build(item) for item in node["list"]]
        return kind(values) if kind is not None else values
    if "set" in node:
        return {build(item) for item in node["set"]}
    if "object" in node:
        import types

        values_by_name = {name: build(item) for name, item in node["object"]}
        if kind is None:
            return types.SimpleNamespace(**values_by_name)
        made = object.__new__(kind)
        for name, value in values_by_name.items():
            object.__setattr__(made, name, value)
        return made
    raise ValueError(f"a value of class {node.get('cut', '?')} was not kept")


def _built_key(key: Any) -> Any:
    return key["text"] if isinstance(key, dict) else key


def _made(kind: Any, items: dict[Any, Any]) -> Any:
    """A mapping of the user's class, without running its ``__init__``'s idea of arguments where that fails."""
    try:
        return kind(items)
    except Exception:
        made = kind.__new__(kind)
        made.update(items)
        return made
