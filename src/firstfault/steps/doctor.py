"""Does the device compute at all? Versions, back end, and a small computation on each device with its result checked.

The computation runs in a process of its own, since a sick driver takes its process along.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import msgspec

from firstfault.case.schema import Environment, Fact

_SECONDS = 120.0  # the first use of a device loads its driver and kernels


class DeviceCheck(Fact, frozen=True, kw_only=True):
    """One device: whether it computed what it should, and what it said if not."""

    device: str
    name: str | None = None
    ok: bool = False
    said: str | None = None
    seconds: float | None = None


class Doctor(Fact, frozen=True, kw_only=True):
    healthy: bool
    environment: Environment
    devices: tuple[DeviceCheck, ...] = ()
    advice: tuple[str, ...] = ()


_PROGRAM = r"""
import json, sys, time
import torch
from firstfault.record.environment import environment
def devices():
    yield "cpu", None
    if torch.cuda.is_available():
        for n in range(torch.cuda.device_count()):
            yield f"cuda:{n}", torch.cuda.get_device_name(n)
    if torch.backends.mps.is_available():
        yield "mps", None
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        for n in range(torch.xpu.device_count()):
            yield f"xpu:{n}", torch.xpu.get_device_name(n)
for device, name in devices():
    started = time.monotonic()
    found = {"device": device, "name": name, "ok": False}
    try:
        a = torch.arange(12.0, device=device).reshape(3, 4)
        w = torch.ones(4, 2, device=device, requires_grad=True)
        loss = torch.nn.functional.cross_entropy(a @ w, torch.tensor([0, 1, 0], device=device))
        loss.backward()
        right = abs(loss.item() - 0.6931472) < 1e-4 and abs(w.grad.sum().item()) < 1e-3
        found.update(ok=right, said=None if right else f"a cross entropy of ln 2 came out as {loss.item()}")
    except Exception as error:
        found["said"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    found["seconds"] = time.monotonic() - started
    print(json.dumps(found), flush=True)
import msgspec
print(msgspec.json.encode(environment()).decode(), flush=True)
"""


def doctor() -> Doctor:
    """Check every device that torch sees."""
    checks: list[DeviceCheck] = []
    environment = Environment(python=sys.version.split()[0], platform=sys.platform)
    said = ""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=_SECONDS
        )
        for line in done.stdout.splitlines():
            found: dict[str, Any] = json.loads(line)
            if "device" in found:
                checks.append(msgspec.convert(found, DeviceCheck))
            else:
                environment = msgspec.convert(found, Environment)
        said = (done.stderr.strip().splitlines() or [""])[-1] if done.returncode else ""
    except subprocess.TimeoutExpired:
        said = f"no answer within {_SECONDS:g} s"
    healthy = bool(checks) and all(check.ok for check in checks) and not said
    return Doctor(
        healthy=healthy,
        environment=environment,
        devices=tuple(checks),
        advice=tuple(_advice(environment, checks, said)),
    )


def _advice(environment: Environment, checks: list[DeviceCheck], said: str) -> list[str]:
    advice = []
    if said:
        advice.append(f"the check itself ended with: {said}")
    if environment.torch is None:
        advice.append("torch can't be imported here: install it in this environment")
    elif environment.backend in ("cuda", "rocm") and not any(
        check.device.startswith("cuda") for check in checks
    ):
        driver = (
            "the ROCm driver (rocminfo)"
            if environment.backend == "rocm"
            else "the NVIDIA driver (nvidia-smi)"
        )
        advice.append(f"this torch is built for {environment.backend}, but it sees no device: check {driver}")
    advice += [f"{check.device} fails: {check.said}" for check in checks if not check.ok]
    return advice
