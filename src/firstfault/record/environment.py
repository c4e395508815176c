"""The environment of a run: versions, back end, devices, switches. Read at a failure, without touching a device."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import Any

from firstfault.case.schema import Device, Environment

# Only variables that steer torch and its libraries come in at all; values of others never do.
_VARIABLES = (
    "CUDA_",
    "CUBLAS_",
    "CUDNN_",
    "NVIDIA_TF32",
    "HIP_",
    "HSA_",
    "ROCR_",
    "AMD_",
    "MIOPEN_",
    "TORCH_",
    "TORCHDYNAMO_",
    "TORCHINDUCTOR_",
    "PYTORCH_",
    "NCCL_",
    "RCCL_",
    "GLOO_",
    "OMP_",
    "MKL_",
    "KMP_",
    "OPENBLAS_",
    "TRITON_",
    "ZE_",
    "SYCL_",
    "PYTHONHASHSEED",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "ACCELERATE_",
)
_SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL")
_MAX_VALUE = 500  # characters
_MAX_PACKAGES = 80
# Packages whose version matters for a failure of torch's; others are named only when they were loaded.
_PACKAGES = (
    "torch",
    "numpy",
    "torchvision",
    "torchaudio",
    "triton",
    "lightning",
    "pytorch-lightning",
    "transformers",
    "accelerate",
    "torchdata",
    "datasets",
    "torch-geometric",
    "timm",
    "safetensors",
)


def environment() -> Environment:
    """The environment of this process. Devices are named only where that doesn't start a driver."""
    torch = sys.modules.get("torch")
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "packages": packages(),
        "variables": variables(),
    }
    if torch is not None:
        facts.update(_of_torch(torch))
    return Environment(**facts)


def backend(torch: Any) -> str:
    """``'rocm'``, ``'cuda'``, ``'xpu'``, ``'mps'`` or ``'cpu'``: what this build of torch computes on.

    ``torch.version.hip`` tells ROCm: ``torch.cuda`` answers there too, so its presence proves nothing.
    """
    if torch.version.hip is not None:
        return "rocm"
    if torch.version.cuda is not None:
        return "cuda"
    if getattr(torch.version, "xpu", None) is not None:
        return "xpu"
    return "mps" if torch.backends.mps.is_built() else "cpu"


def _of_torch(torch: Any) -> dict[str, Any]:
    return {
        "torch": str(torch.__version__),
        "backend": backend(torch),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "threads": torch.get_num_threads(),
        "devices": _devices(torch),
        "arch_list": tuple(torch.cuda.get_arch_list()) if torch.version.cuda or torch.version.hip else (),
        "flags": _flags(torch),
    }


def _devices(torch: Any) -> tuple[Device, ...]:
    if not torch.cuda.is_initialized():
        return ()
    found = []
    for number in range(torch.cuda.device_count()):
        try:
            properties = torch.cuda.get_device_properties(number)
        except Exception:
            break  # a poisoned context answers nothing; what is known so far stays
        found.append(
            Device(
                kind="cuda",
                index=number,
                name=properties.name,
                capability=f"{properties.major}.{properties.minor}",
                memory_bytes=properties.total_memory,
            )
        )
    return tuple(found)


def _flags(torch: Any) -> dict[str, Any]:
    return {
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn.enabled": torch.backends.cudnn.enabled,
        "cudnn.benchmark": torch.backends.cudnn.benchmark,
        "cudnn.allow_tf32": torch.backends.cudnn.allow_tf32,
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "anomaly": torch.is_anomaly_enabled(),
    }


def packages() -> dict[str, str]:
    """Versions of the packages that are loaded in this process, the ones that matter to torch first."""
    loaded = {name.split(".", 1)[0] for name in sys.modules}
    owners = importlib.metadata.packages_distributions()
    names = [*_PACKAGES, *sorted({owner for module in loaded for owner in owners.get(module, ())})]
    found: dict[str, str] = {}
    for name in names:
        if name in found or len(found) >= _MAX_PACKAGES:
            continue
        if name.replace("-", "_") not in loaded and not any(
            name in owners.get(module, ()) for module in loaded
        ):
            continue
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def variables() -> dict[str, str]:
    """The environment variables that steer torch, by an allow list; never one whose name looks secret."""
    return {
        name: value[:_MAX_VALUE]
        for name, value in sorted(os.environ.items())
        if name.startswith(_VARIABLES) and not any(word in name for word in _SECRET)
    }
