"""A process that has imported torch, has computed nothing, and forks one child a trial. Linux only.

Importing torch takes seconds; a fork of a process that has imported it, milliseconds. It must never run a tensor
operator: one of some 40,000 elements leaves OpenMP's team of threads behind, and every child that needs it hangs. So
after the imports a throw-away child is forked, the threads are counted, and a canary child must finish parallel
operators in time; else every trial gets a new interpreter instead.

It is the parent of all trials, and the reaper of what they leave behind: when it is told to end, when its input ends or
when the process that started it is gone, it kills them all and ends.

Protocol, one JSON object a line. Argument: ``{"fork", "preload"}``. In: ``{"folder", "fresh", "environment"}`` for each
trial, ``{"end": true}``. Out: ``{"note": text}`` at any time, ``{"serving": true}`` once, then
``{"folder", "pid", "forked"}`` and ``{"folder", "status"}`` for each trial.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from firstfault.trial.processes import LOST, kill_group, zygote_command

CANARY_SECONDS = 5.0  # a healthy child needs some 30 ms
PRELOAD = (
    "torch",
    "torch.optim",
    "torch.utils.data",
    "torch._dynamo",
    "firstfault.trial.child",
    "firstfault.trial.script",
    "firstfault.trial.feeding",
)
_ORPHANED_SECONDS = 1.0  # between looks whether the asking process still lives
_END_SECONDS = 2.0  # for killed children to be gone; one that waits for a device's driver may never be
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25  # asm-generic/mman-common.h; the second since Linux 6.1
_HUGE_PAGE = 2 * 2**20  # bytes, on x86-64 and on arm64 with pages of 4 KiB
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h, since Linux 3.4
_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"


def serve(argument: str) -> NoReturn:
    """Import, prove that forking is safe, then launch a process for each line of standard input."""
    asked = json.loads(argument)
    parent = os.getppid()
    _keep_channel()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what leaves a trial's session becomes this process's child
    server = Server(parent, can_fork=asked["fork"] and _prepare(asked["preload"]))
    if server.can_fork:
        gc.freeze()  # a collection in a child would copy every page that holds an imported object
        _use_huge_pages()
    _say({"serving": True})
    server.run()
    os._exit(0)  # torch's own way out takes a second, and there is nothing left to say


class Server:
    """Launches and reaps, as long as ``parent`` lives. ``trials`` are the folders of those in flight, by process id."""

    def __init__(self, parent: int, *, can_fork: bool) -> None:
        self.parent = parent
        self.can_fork = can_fork
        self.trials: dict[int, str] = {}
        self.unread = b""

    def run(self) -> None:
        """Serve until told to end; whatever still runs then is killed."""
        woken = _wake_on_child()
        open_ = True
        while open_:
            readable, _, _ = select.select([0, woken], [], [], _ORPHANED_SECONDS)
            if woken in readable:
                os.read(woken, 4096)
                self.reap()
            if 0 in readable:
                open_ = self.read()
            open_ = open_ and os.getppid() == self.parent
        _end_children(woken)

    def read(self) -> bool:
        """Take the requests that have come; False when there will be none any more."""
        data = os.read(0, 65536)
        *lines, self.unread = (self.unread + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if "end" in request:
                return False
            self.launch(request)
        return bool(data)

    def launch(self, request: dict[str, Any]) -> None:
        forked = self.can_fork and not request["fresh"]
        here = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            _say({"note": f"a trial can't be started: {error.strerror}"})
            _say({"folder": request["folder"], "status": LOST})
            return
        if pid == 0:
            _become_trial(request, forked, here)
        self.trials[pid] = request["folder"]
        _say({"folder": request["folder"], "pid": pid, "forked": forked})

    def reap(self) -> None:
        """Tell of trials that ended, and kill what they left running."""
        while (ended := _ended_child()) is not None:
            kill_group(ended)  # while the process is unreaped, its id can't have become another's
            _, status = os.waitpid(ended, 0)
            folder = self.trials.pop(ended, None)
            if folder is not None:
                _say({"folder": folder, "status": os.waitstatus_to_exitcode(status)})
        if (
            not self.trials and _has_children()
        ):  # what left its trial's session while no other trial can own it
            _kill_children()


_channel = 1  # where the asking process listens


def _keep_channel() -> None:
    """Answer on a descriptor of its own, so that what an imported module prints is no answer."""
    global _channel
    _channel = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)


def _say(message: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(_channel, json.dumps(message).encode() + b"\n")


def _wake_on_child() -> int:
    """A file descriptor that can be read from when a child has ended."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return wake_read


def _ended_child() -> int | None:
    """A child that has ended, not yet reaped."""
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if ended is None else ended.si_pid


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _kill_children() -> None:
    for pid in _children():
        kill_group(pid)


def _end_children(woken: int) -> None:
    """Kill all children and, as they become ours, theirs; one that the kernel can't end is left behind."""
    deadline = time.monotonic() + _END_SECONDS
    while _has_children() and time.monotonic() < deadline:
        _kill_children()
        if select.select([woken], [], [], _END_SECONDS / 10)[0]:
            os.read(woken, 4096)
        while (ended := _ended_child()) is not None:
            os.waitpid(ended, 0)


def _children() -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{name}/stat").read_text(errors="replace")
            if int(stat.rpartition(")")[2].split()[1]) == os.getpid():  # proc(5): pid (comm) state ppid
                found.append(int(name))
    return found


def _use_huge_pages() -> None:
    """Put this process's memory into huge pages: a fork copies one table entry for each page, 500 times fewer then."""
    with contextlib.suppress(Exception):
        libc = ctypes.CDLL(None)
        for line in Path("/proc/self/maps").read_text().splitlines():
            extent, permissions, *_, name = [*line.split(maxsplit=5), ""][:6]
            start, end = (int(address, 16) for address in extent.split("-"))
            if permissions == "rw-p" and name in ("", "[heap]") and end - start >= _HUGE_PAGE:
                for advice in (_MADV_HUGEPAGE, _MADV_COLLAPSE):
                    libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), advice)


# ---- the trial's side of the fork -----------------------------------------------------------------------------------


def _become_trial(request: dict[str, Any], forked: bool, parent: int) -> NoReturn:
    """Turn this forked copy of the server into a trial; it never returns to the server's code."""
    code = LOST
    try:
        os.setsid()
        os.close(_channel)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        die_with(parent)
        folder = Path(request["folder"])
        _redirect(folder)
        os.environ.update(request["environment"])
        if not forked:
            os.execv(sys.executable, [sys.executable, "-m", "firstfault.trial.child", str(folder)])
        _fresh_entropy()
        code = sys.modules["firstfault.trial.child"].main(folder)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, however that dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel knew
        os._exit(LOST)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def _redirect(folder: Path) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(folder / "stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    err = os.open(folder / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for source, target in ((null, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
        os.close(source)


def _fresh_entropy() -> None:
    """Children share the parent's generators; a new process draws its own seeds for Python's and NumPy's.

    torch's default generator starts every process from the same seed (c10::default_rng_seed_val), so it stays.
    """
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


# ---- whether forking is safe ----------------------------------------------------------------------------------------


def _prepare(preload: Sequence[str]) -> bool:
    """Import everything; whether children may be forked then.

    When torch alone is safe and the user's modules are not, the server starts again without them.
    """
    theirs = None
    with _starting_no_device():
        why = _import(PRELOAD) or unsafe()
        if why is None and preload:
            theirs = _import(preload) or unsafe()
    if why is not None:
        _say({"note": f"trials get new interpreters, which take seconds each: {why}"})
    elif theirs is not None:
        _say({"note": f"trials start without {', '.join(preload)}: {theirs}"})
        os.dup2(_channel, 1)
        os.execv(sys.executable, zygote_command(()))
    return why is None


@contextlib.contextmanager
def _starting_no_device() -> Iterator[None]:
    """Have ``torch.cuda.is_available()`` ask NVML, which starts no device (torch/cuda/__init__.py, torch 2.13)."""
    before = os.environ.get(_NVML)
    os.environ[_NVML] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NVML]  # trials ask as the user's own run did
        else:
            os.environ[_NVML] = before


def _import(names: Sequence[str]) -> str | None:
    """Import modules; what went wrong, or None."""
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:
            return f"importing {name} raised {type(error).__name__}: {error}"
    return None


def unsafe() -> str | None:
    """Why forking from this process would not be safe, or None."""
    import torch

    if torch.cuda.is_initialized():
        return "a device was started while importing"
    throwaway = os.fork()  # OpenBLAS ends its threads before a process forks
    if throwaway == 0:
        os._exit(0)
    os.waitpid(throwaway, 0)
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        return f"{threads} threads are running after the imports, a fork would lose them"
    here = os.getpid()
    canary = os.fork()
    if canary == 0:
        _sing(here)
    return _canary_ended(canary)


def _sing(parent: int) -> NoReturn:
    """The canary: operators that need OpenMP's team and the BLAS library's threads."""
    code = 1
    try:
        import torch

        die_with(parent)
        torch.nn.functional.cross_entropy(torch.zeros(400, 400), torch.zeros(400, dtype=torch.long))
        torch.mm(torch.zeros(300, 300), torch.zeros(300, 300))
        code = 0
    finally:
        os._exit(code)


def _canary_ended(canary: int) -> str | None:
    deadline = time.monotonic() + CANARY_SECONDS
    ended = os.pidfd_open(canary)
    try:
        readable, _, _ = select.select([ended], [], [], max(deadline - time.monotonic(), 0))
    finally:
        os.close(ended)
    if not readable:
        os.kill(canary, signal.SIGKILL)
    _, status = os.waitpid(canary, 0)
    if not readable:
        return f"a first child hung for {CANARY_SECONDS:g} s"
    code = os.waitstatus_to_exitcode(status)
    return None if code == 0 else f"a first child ended with {code}"
