"""Which errors a device reports late, and what makes it report them where they happen.

Imports nothing of torch, so that a step can ask before a trial is started.
"""

from __future__ import annotations

import re

# By back end, what makes launches wait. CUDA: CUDA Toolkit programming guide, environment variables. ROCm: HIP waits
# before and after each kernel with AMD_SERIALIZE_KERNEL=3, and for copies with AMD_SERIALIZE_COPY=3
# (rocm.docs.amd.com, HIP environment variables, debug variables). MPS and XPU have no such variable.
BLOCKING: dict[str, dict[str, str]] = {
    "cuda": {"CUDA_LAUNCH_BLOCKING": "1"},
    "rocm": {"AMD_SERIALIZE_KERNEL": "3", "AMD_SERIALIZE_COPY": "3"},
}
_LATE = re.compile(
    r"AcceleratorError|device-side assert|CUDA error|HIP error|hipError|cudaError|CUDNN_STATUS|CUBLAS_STATUS|CUSPARSE_STATUS"
    r"|MIOPEN_STATUS|HIPBLAS_STATUS|rocblas_status|illegal memory access|unspecified launch failure"
    r"|MPS backend|MPSNDArray|UR_RESULT_ERROR|level_zero|SYCL error"
)


def reports_late(text: str) -> bool:
    """Whether an error, as ``'type: message'``, may stem from an earlier operator than the one that raised it."""
    return bool(_LATE.search(text)) and "out of memory" not in text.lower()
