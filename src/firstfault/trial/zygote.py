"""A process that has imported torch, has computed nothing, and forks one child a trial.

Importing torch takes seconds; a fork of a process that has imported it, milliseconds. It must never run a tensor
operator: one of some 40,000 elements leaves OpenMP's team of threads behind, and every child that needs it hangs. So
after the import a throw-away child is forked, the threads are counted, and a canary child must finish a parallel
operator in time; else the server says 'unsafe' and new interpreters are used instead.

Protocol, one JSON object a line. In: ``{"folder", "memory"}``. Out: ``{"ready": true}`` or ``{"unsafe": why}`` once,
then ``{"folder", "pid"}`` and ``{"folder", "status"}`` for each trial. End of input ends the server and its children.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import random
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

CANARY_SECONDS = 5.0  # a healthy child needs some 30 ms
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
PRELOAD = ("torch", "torch.optim", "torch.utils.data", "torch._dynamo", "firstfault.trial.script", "firstfault.trial.feeding")


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent dies, however that dies. Linux only."""
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def serve(preload: list[str]) -> None:
    """Import, prove that forking is safe, then fork a child for each line of standard input."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in (*PRELOAD, *preload):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    unsafe = _unsafe()
    if unsafe:
        _say({"unsafe": unsafe})
        return
    _say({"ready": True})
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: dict[int, str] = {}
    buffer = b""
    while True:
        readable, _, _ = select.select([0, wake_read], [], [])
        if wake_read in readable:
            os.read(wake_read, 4096)
            _reap(children)
        if 0 in readable:
            data = os.read(0, 65536)
            if not data:
                break
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                request = json.loads(line)
                pid = _fork(request)
                children[pid] = request["folder"]
                _say({"folder": request["folder"], "pid": pid})
    for pid in children:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)


def _say(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def _reap(children: dict[int, str]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in children:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)  # whatever the trial left running
            _say({"folder": children.pop(pid), "status": os.waitstatus_to_exitcode(status)})


def _fork(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 3
    try:
        os.setsid()
        die_with_parent()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        folder = Path(request["folder"])
        _redirect(folder)
        if request.get("memory"):
            resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
        _fresh_entropy()
        from firstfault.trial.child import main

        code = main(folder)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _redirect(folder: Path) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(folder / "stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    err = os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for source, target in ((null, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
        os.close(source)


def _fresh_entropy() -> None:
    """Children share the parent's generators; a new process draws its own seeds for Python's and NumPy's."""
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _unsafe() -> str | None:
    """Why forking from here would not be safe, or None."""
    torch = sys.modules.get("torch")
    if torch is None:
        return "torch can't be imported"
    if torch.cuda.is_initialized():
        return "a device was started while importing"
    throwaway = os.fork()
    if throwaway == 0:
        os._exit(0)
    os.waitpid(throwaway, 0)
    with contextlib.suppress(OSError):
        threads = len(os.listdir("/proc/self/task"))
        if threads != 1:
            return f"{threads} threads are running after the imports"
    canary = os.fork()
    if canary == 0:
        torch.nn.functional.cross_entropy(torch.zeros(400, 400), torch.zeros(400, dtype=torch.long))
        os._exit(0)
    deadline = time.monotonic() + CANARY_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(canary, os.WNOHANG)
        if done:
            return None if status == 0 else f"a first child ended with {status}"
        select.select([], [], [], 0.01)
    os.kill(canary, signal.SIGKILL)
    os.waitpid(canary, 0)
    return f"a first child hung for {CANARY_SECONDS:g} s"


if __name__ == "__main__":
    serve(sys.argv[1:])
