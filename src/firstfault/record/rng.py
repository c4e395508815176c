"""Random states: taken at each batch's border in microseconds, kept as plain bytes, put back in a trial.

A snapshot is one byte string (no pickle): Python's generator, NumPy's legacy generator, torch's CPU generator, and the
generator objects that the data set holds. Accelerators' generators are taken separately, only once they exist.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from firstfault.case.schema import Fact

_PYTHON_WORDS = 625
_NUMPY_BYTES = 2500  # mt19937_state: 624 words and a position (numpy/random/src/mt19937/mt19937.h, NumPy 2.4)
_MAX_GENERATORS = 32  # generator objects of one data set
_MAX_DEPTH = 3  # how deep below the data set's attributes they are looked for


class States(Fact, frozen=True, kw_only=True):
    """Random states of one process at one moment. A field is None where the library wasn't loaded or holds none."""

    python: bytes | None = None
    python_gauss: float | None = None
    numpy: bytes | None = None
    numpy_gauss: tuple[int, float] | None = None
    torch: bytes | None = None
    devices: dict[str, bytes] = {}
    generators: dict[str, Any] = {}


class Sampler:
    """Takes the states of this process, cheaply.

    NumPy's state costs some 40 µs through its own interface, so its memory is compared first and the interface used
    only when it changed. (The cached second Gaussian isn't part of that memory: while one is held, the interface is
    always used.)
    """

    __slots__ = ("_numpy", "_numpy_full", "_numpy_raw", "_read", "_torch", "raw")

    def __init__(self) -> None:
        self._torch: Any = None
        self._numpy: tuple[Any, int] | None = None
        self._numpy_raw: bytes = b""
        self._numpy_full: Any = None
        self.raw: tuple[Any, Any, Any] | None = None

    def take(self) -> None:
        """Remember the states as they are now; ``states()`` turns them into a snapshot when one is needed."""
        torch_ = self._torch or self._find_torch()
        self.raw = (
            random.getstate(),
            self._numpy_state() if self._numpy or "numpy.random" in sys.modules else None,
            torch_.get_state() if torch_ is not None else None,
        )

    def _find_torch(self) -> Any:
        torch_ = sys.modules.get("torch")
        self._torch = getattr(torch_, "default_generator", None)
        return self._torch

    def _numpy_state(self) -> Any:
        if self._numpy is None:
            import ctypes

            self._read = ctypes.string_at
            self._numpy = _numpy_memory()
        generator, address = self._numpy
        if address:
            raw = self._read(address, _NUMPY_BYTES)
            if raw == self._numpy_raw and not self._numpy_full["has_gauss"]:
                return self._numpy_full
            self._numpy_raw = raw
        self._numpy_full = generator.get_state(legacy=False)
        return self._numpy_full

    def states(self, generators: Sequence[tuple[str, Any]] = ()) -> States | None:
        """The states taken last, as a snapshot."""
        if self.raw is None:
            return None
        python, numpy, torch_ = self.raw
        return _states(python, numpy, torch_, generators)


def _numpy_memory() -> tuple[Any, int]:
    """NumPy's global generator and the address of its state; address 0 when it isn't the usual Mersenne Twister."""
    numpy_random = sys.modules["numpy.random"]
    generator = numpy_random.mtrand._rand
    bits = generator._bit_generator
    address = bits.ctypes.state_address if type(bits).__name__ == "MT19937" else 0
    return generator, address


def _states(python: Any, numpy: Any, torch_: Any, generators: Sequence[tuple[str, Any]]) -> States:
    facts: dict[str, Any] = {
        "python": struct.pack(f"<{_PYTHON_WORDS}I", *python[1]),
        "python_gauss": python[2],
        "generators": {path: generator_state(generator) for path, generator in generators},
    }
    if numpy is not None and numpy["bit_generator"] == "MT19937":
        key = numpy["state"]["key"].astype("<u4").tobytes()
        facts["numpy"] = key + struct.pack("<i", numpy["state"]["pos"])
        facts["numpy_gauss"] = (int(numpy["has_gauss"]), float(numpy["gauss"]))
    if torch_ is not None:
        facts["torch"] = torch_.numpy().tobytes()
    return States(**facts)


def take(generators: Sequence[tuple[str, Any]] = ()) -> States:
    """The states of this process now."""
    sampler = Sampler()
    sampler.take()
    states = sampler.states(generators)
    assert states is not None
    return states


def put_back(states: States, generators: Sequence[tuple[str, Any]] = ()) -> None:
    """Set this process's generators to recorded states; those that were not recorded stay as they are."""
    if states.python is not None:
        words = struct.unpack(f"<{_PYTHON_WORDS}I", states.python)
        random.setstate((3, words, states.python_gauss))
    if states.numpy is not None:
        import numpy as np

        key = np.frombuffer(states.numpy[:-4], dtype="<u4")
        (position,) = struct.unpack("<i", states.numpy[-4:])
        has_gauss, gauss = states.numpy_gauss or (0, 0.0)
        np.random.set_state(("MT19937", key, position, has_gauss, gauss))
    if states.torch is not None:
        import torch

        torch.set_rng_state(torch.frombuffer(bytearray(states.torch), dtype=torch.uint8))
    _put_back_devices(states.devices)
    for path, generator in generators:
        if path in states.generators:
            set_generator_state(generator, states.generators[path])


def device_states() -> dict[str, bytes]:
    """The accelerators' generators, once they exist. Their states live on the host: nothing is synchronised."""
    torch_ = sys.modules.get("torch")
    if torch_ is None or not torch_.cuda.is_initialized():
        return {}
    return {
        f"cuda:{number}": generator.get_state().numpy().tobytes()
        for number, generator in enumerate(torch_.cuda.default_generators)
    }


def _put_back_devices(devices: dict[str, bytes]) -> None:
    if not devices:
        return
    import torch

    for name, state in devices.items():
        kind, _, number = name.partition(":")
        if kind == "cuda" and torch.cuda.is_available() and int(number) < torch.cuda.device_count():
            torch.cuda.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8), int(number))


def generators_of(value: Any) -> list[tuple[str, Any]]:
    """The generator objects that a data set holds, with the path to each, in a stable order."""
    found: list[tuple[str, Any]] = []
    _look(value, "", _MAX_DEPTH, found, set())
    return found


def _look(value: Any, path: str, depth: int, found: list[tuple[str, Any]], seen: set[int]) -> None:
    if len(found) >= _MAX_GENERATORS or id(value) in seen:
        return
    seen.add(id(value))
    if _is_generator(value):
        found.append((path, value))
        return
    if depth == 0:
        return
    if isinstance(value, (list, tuple)) and len(value) <= _MAX_GENERATORS:
        children = [(f"{path}[{number}]", item) for number, item in enumerate(value)]
    elif isinstance(value, dict) and len(value) <= _MAX_GENERATORS:
        children = [(f"{path}[{key!r}]", item) for key, item in value.items()]
    else:
        children = [(f"{path}.{name}", item) for name, item in getattr(value, "__dict__", {}).items()]
    for child_path, child in children:
        _look(child, child_path, depth - 1, found, seen)


def _is_generator(value: Any) -> bool:
    kind = type(value)
    return isinstance(value, random.Random) or (
        (kind.__module__.startswith("numpy.random") and kind.__name__ in ("Generator", "RandomState"))
        or (kind.__module__.startswith("torch") and kind.__name__ == "Generator")
    )


def generator_state(generator: Any) -> Any:
    """The state of one generator object as plain data; ints beyond 64 bits as hexadecimal text."""
    if isinstance(generator, random.Random):
        return {"python": _plain(generator.getstate())}
    if type(generator).__module__.startswith("torch"):
        return {"torch": generator.get_state().numpy().tobytes().hex()}
    if type(generator).__name__ == "RandomState":
        return {"numpy_legacy": _plain(generator.get_state(legacy=False))}
    return {"numpy": _plain(generator.bit_generator.state)}


def set_generator_state(generator: Any, state: dict[str, Any]) -> None:
    """Put a state from :func:`generator_state` back; one of another kind of generator is ignored."""
    if "python" in state and isinstance(generator, random.Random):
        version, words, gauss = state["python"]
        generator.setstate((version, tuple(words), gauss))
    elif "torch" in state and type(generator).__module__.startswith("torch"):
        import torch

        generator.set_state(torch.frombuffer(bytearray.fromhex(state["torch"]), dtype=torch.uint8))
    elif "numpy_legacy" in state and type(generator).__name__ == "RandomState":
        generator.set_state(_numpy_value(state["numpy_legacy"]))
    elif "numpy" in state and hasattr(generator, "bit_generator"):
        restored = _numpy_value(state["numpy"])
        if restored["bit_generator"] == generator.bit_generator.state["bit_generator"]:
            generator.bit_generator.state = restored


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return {"array": value.tolist(), "dtype": str(value.dtype)} if value.ndim else value.item()
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return {"hex": hex(value)}
    return value


def _numpy_value(value: Any) -> Any:
    if isinstance(value, dict):
        if "hex" in value:
            return int(value["hex"], 16)
        if "array" in value and "dtype" in value:
            import numpy as np

            return np.array(value["array"], dtype=value["dtype"])
        return {key: _numpy_value(item) for key, item in value.items()}
    return value


def encode(states: States) -> bytes:
    return msgspec.msgpack.encode(states)


def decode(data: bytes) -> States:
    return msgspec.msgpack.decode(data, type=States)
