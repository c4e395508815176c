"""Runs trials: each in a fresh process, several at once, killed with its children at its limits.

Fresh processes are forked from a zygote where that is safe, and are new interpreters where it isn't or where a plan asks
for one. A trial whose process died without a word is 'lost' unless the signal tells that it failed by itself; a lost
trial is never 'the same'.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from firstfault.case.schema import ExceptionInfo, Failure
from firstfault.errors import UsageError
from firstfault.trial.outcome import Outcome
from firstfault.trial.plan import Plan

STDERR_TAIL = 4_000  # characters of a trial's standard error that its outcome keeps
_START_SECONDS = 120.0  # for the zygote's imports on a busy machine
_KEPT_FOLDERS = 200  # trial folders left on disk; older ones are deleted
# Signals by which a process fails by itself; SIGKILL and SIGTERM come from outside.
_OWN_SIGNALS = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}

Progress = Callable[[int, Plan, Outcome], None]


class Engine:
    """Owns the zygote and at most ``jobs`` trials at once. A context manager: nothing of it outlives the block.

    Args:
        workspace: folder for the trials' folders; made when missing.
        jobs: trials at once; the number of usable cores by default.
        preload: modules that the zygote imports beside torch.
        progress: called after each executed trial with the count so far.
        fork: False uses new interpreters only.

    Raises:
        UsageError: the workspace can't be written.
    """

    def __init__(
        self,
        workspace: Path,
        *,
        jobs: int | None = None,
        preload: Sequence[str] = (),
        progress: Progress | None = None,
        fork: bool = True,
    ) -> None:
        self.workspace = workspace.absolute()
        self.jobs = jobs or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.trials = 0
        self.progress = progress
        self._lock = threading.Lock()
        self._number = 0
        self._cache: dict[str, Outcome] = {}
        self._processes: set[int] = set()
        self._closed = False
        try:
            self.workspace.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{workspace} can't be written: {error.strerror or error}; check permissions and free space") from None
        self._zygote = _Zygote(preload) if fork and sys.platform == "linux" else None
        self._pool = ThreadPoolExecutor(self.jobs, thread_name_prefix="trial")

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Kill what still runs."""
        self._closed = True
        with self._lock:
            running = list(self._processes)
        for pid in running:
            _kill(pid)
        if self._zygote is not None:
            self._zygote.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def run(self, plan: Plan) -> Outcome:
        """Run one trial and wait for its outcome. Equal plans are run once; lost and timed-out ones again."""
        key = hashlib.sha256(msgspec.json.encode(plan)).hexdigest()
        with self._lock:
            known = self._cache.get(key)
        if known is not None:
            return known
        outcome = self._execute(plan)
        with self._lock:
            self.trials += 1
            count = self.trials
            if outcome.ended not in ("lost", "timed_out"):
                self._cache[key] = outcome
        if self.progress is not None:
            self.progress(count, plan, outcome)
        return outcome

    def run_all(self, plans: Iterable[Plan]) -> list[Outcome]:
        """Run several trials side by side; outcomes come in the order of the plans."""
        return list(self._pool.map(self.run, plans))

    def first(self, plans: Sequence[Plan], accept: Callable[[Outcome], bool]) -> tuple[int, Outcome] | None:
        """The first plan, in the given order, whose outcome is accepted; None when none is.

        Trials are speculated ahead, but an outcome counts only when all plans before it were refused, so the result
        doesn't depend on the number of jobs.
        """
        for start in range(0, len(plans), self.jobs):
            for offset, outcome in enumerate(self.run_all(plans[start : start + self.jobs])):
                if accept(outcome):
                    return start + offset, outcome
        return None

    # ---- one trial ------------------------------------------------------------------------------------------------

    def _execute(self, plan: Plan) -> Outcome:
        folder = self._folder()
        (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
        variant = plan.variant
        fresh = plan.new_interpreter or (variant is not None and bool(variant.environment))
        if not fresh and self._zygote is not None and self._zygote.ready():
            ended = self._zygote.run(folder, plan.seconds, plan.memory_bytes, self._running)
        else:
            ended = self._new_interpreter(folder, plan)
        return _outcome(folder, ended, plan.seconds)

    def _folder(self) -> Path:
        with self._lock:
            self._number += 1
            number = self._number
        folder = self.workspace / f"trial-{os.getpid()}-{number:05d}"
        folder.mkdir()
        old = self.workspace / f"trial-{os.getpid()}-{number - _KEPT_FOLDERS:05d}"
        shutil.rmtree(old, ignore_errors=True)
        return folder

    @contextlib.contextmanager
    def _running(self, pid: int):  # type: ignore[no-untyped-def]
        with self._lock:
            self._processes.add(pid)
        try:
            yield
        finally:
            with self._lock:
                self._processes.discard(pid)

    def _new_interpreter(self, folder: Path, plan: Plan) -> int | None:
        environment = dict(os.environ)
        if plan.variant is not None:
            environment.update(plan.variant.environment)
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "firstfault.trial.child", str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                start_new_session=True,
            )
        with self._running(process.pid):
            try:
                return process.wait(plan.seconds + _START_SECONDS / 4)
            except subprocess.TimeoutExpired:
                return None
            finally:
                _kill(process.pid)
                process.wait()


def _kill(pid: int) -> None:
    """Kill a trial with everything it started; each trial leads a session of its own."""
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def _outcome(folder: Path, ended: int | None, seconds: float) -> Outcome:
    """The outcome that the trial wrote, or what its death tells. ``ended``: exit code, minus signal, None for too long."""
    tail = _tail(folder / "stderr")
    try:
        outcome = msgspec.json.decode((folder / "outcome.json").read_bytes(), type=Outcome)
        return msgspec.structs.replace(outcome, stderr_tail=tail)
    except (OSError, msgspec.MsgspecError):
        pass
    common: dict[str, Any] = {"stderr_tail": tail, "folder": str(folder)}
    if ended is None:
        return Outcome(ended="timed_out", seconds=seconds, reason=f"it ran for more than {seconds:g} s", **common)
    if ended < 0 and signal.Signals(-ended) in _OWN_SIGNALS:
        name = signal.Signals(-ended).name
        exception = ExceptionInfo(type=name, message=_fatal_line(tail))
        failure = Failure(kind="killed", phase="other", exception=exception, stderr_tail=tail)
        return Outcome(ended="failed", failure=failure, signal=-ended, reached=True, **common)
    return Outcome(ended="lost", exit_code=ended, reason=f"the process ended with {ended} and no outcome", **common)


def _fatal_line(tail: str) -> str:
    return next((line for line in tail.splitlines() if line.startswith("Fatal Python error")), "")


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - STDERR_TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


class _Zygote:
    """The engine's end of the zygote: one writer, one reading thread, an event for each trial."""

    def __init__(self, preload: Sequence[str]) -> None:
        environment = {**os.environ, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "firstfault.trial.zygote", *preload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._started = threading.Event()
        self._safe = False
        self._waiting: dict[str, _Waiting] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ready(self) -> bool:
        """Whether forking is safe; waits for the imports the first time."""
        return self._started.wait(_START_SECONDS) and self._safe

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if "folder" not in message:
                self._safe = bool(message.get("ready"))
                self._started.set()
                continue
            with self._lock:
                waiting = self._waiting.get(message["folder"])
            if waiting is not None:
                waiting.tell(message)
        self._safe = False
        self._started.set()
        with self._lock:
            left = list(self._waiting.values())
        for waiting in left:
            waiting.tell({"status": 3})

    def run(self, folder: Path, seconds: float, memory: int | None, running: Callable[[int], Any]) -> int | None:
        """Fork a child for a trial; its exit code, minus its signal, or None when its time was up."""
        waiting = _Waiting()
        with self._lock:
            self._waiting[str(folder)] = waiting
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps({"folder": str(folder), "memory": memory}).encode() + b"\n")
                self._process.stdin.flush()
            except OSError:
                return 3
        waiting.forked.wait(_START_SECONDS)
        if waiting.pid is None:
            return 3
        with running(waiting.pid):
            in_time = waiting.done.wait(seconds)
            if not in_time:
                _kill(waiting.pid)
                waiting.done.wait(_START_SECONDS)
        with self._lock:
            del self._waiting[str(folder)]
        return waiting.status if in_time else None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(2.0)
        assert self._process.stdout is not None
        self._process.stdout.close()


class _Waiting:
    """One trial in flight."""

    def __init__(self) -> None:
        self.forked = threading.Event()
        self.done = threading.Event()
        self.pid: int | None = None
        self.status: int | None = None

    def tell(self, message: dict[str, Any]) -> None:
        if "pid" in message:
            self.pid = message["pid"]
        if "status" in message:
            self.status = message["status"]
            self.done.set()
        self.forked.set()
