"""Programs on an asynchronous device: the simulated one, and a real one under the marker ``gpu``."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from firstfault.trial.engine import Engine
from firstfault.trial.outcome import Outcome
from firstfault.trial.plan import SourcePlan, Variant

DEVICE_MODULE = Path(__file__).parent / "simulated_device.py"
GUARD_SOURCE = Path(__file__).parent / "device_guard.cpp"
_INSTALL = "import sys; sys.path.insert(0, {folder!r})\nimport simulated_device; simulated_device.install({guard!r})\n"
_COMPILE_SECONDS = 120  # some 3 s of computing
_BLOCKING = {"sim": "SIM_LAUNCH_BLOCKING", "cuda": "CUDA_LAUNCH_BLOCKING"}
_COMMON = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\nfrom firstfault.trial.events import batch_handed_out\n"

Run = Callable[..., Outcome]


def _missing(device: str) -> str | None:
    if device == "cuda":
        return None if torch.cuda.is_available() else "no CUDA device"
    from torch.utils import backend_registration

    available = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")
    return None if available else f"torch {torch.__version__} has no Python back ends (torch 2.10 and newer)"


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    missing = _missing(request.param)
    if missing is not None:
        pytest.skip(missing)
    return request.param


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("trials"), jobs=1) as engine:
        yield engine


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of installed packages with the simulated device in it: its frames are a library's, not the user's."""
    folder = tmp_path_factory.mktemp("library") / "site-packages"
    folder.mkdir()
    shutil.copy(DEVICE_MODULE, folder)
    return str(folder)


@pytest.fixture(scope="session")
def guard() -> str | None:
    """The device's guard, built once for each version of it and of torch; None where there is no compiler."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return None
    key = hashlib.sha256(GUARD_SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:16]
    built = Path(tempfile.gettempdir()) / f"firstfault-device-guard-{os.getuid()}-{key}.so"
    if not built.exists():
        root = Path(torch.__file__).parent
        unfinished = built.with_suffix(f".{os.getpid()}")
        command = [
            compiler,
            "-shared",
            "-fPIC",
            "-O0",
            "-std=c++20",
            f"-I{root / 'include'}",
            str(GUARD_SOURCE),
        ]
        done = subprocess.run(
            [*command, "-o", str(unfinished), f"-L{root / 'lib'}", "-lc10"],
            capture_output=True,
            timeout=_COMPILE_SECONDS,
        )
        if done.returncode:
            return None
        unfinished.replace(built)
    return str(built)


@pytest.fixture
def needs_guard(device: str, guard: str | None) -> None:
    """For failures inside autograd's own operators."""
    if device == "sim" and guard is None:
        pytest.skip("no C++ compiler for the simulated device's guard")


@pytest.fixture
def run(engine: Engine, device: str, library: str, guard: str | None) -> Run:
    """Run a program in a trial of its own, under an instrument or none."""

    def run(source: str, *instruments: str, blocking: bool = False) -> Outcome:
        prelude = _INSTALL.format(folder=library, guard=guard) if device == "sim" else ""
        text = f"{prelude}DEVICE = {device!r}\n{_COMMON}{textwrap.dedent(source)}"
        environment = {_BLOCKING[device]: "1"} if blocking else {}
        variant = Variant(name="synchronous launches", environment=environment) if blocking else None
        return engine.run(SourcePlan(text=text, instruments=instruments, variant=variant))

    return run
