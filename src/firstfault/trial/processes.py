"""The processes that trials run in: forked from the zygote, or new interpreters; each the leader of its own session.

Both are launched by the zygote where there is one, because it outlives whoever asked by just long enough to kill every
process it has started. Elsewhere (macOS, Windows, a zygote that died) new interpreters are started from here.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

INTERPRETER_SECONDS = (
    30.0  # beside a trial's own time: a new interpreter imports torch first, on a busy machine slowly
)
LOST = 3  # exit code of a trial that the machinery broke
_START_SECONDS = 600.0  # for the zygote's imports; from a cold network drive torch takes minutes
_CLOSE_SECONDS = 5.0  # for the zygote to kill its children; it needs milliseconds

# The working folder is taken off sys.path, so that a random.py of the user's can't shadow Python's own.
_SERVE = "import sys; sys.path[:] = filter(None, sys.path); from firstfault.trial.zygote import serve; serve(sys.argv[1])"

log = logging.getLogger("firstfault.trial")


def zygote_command(preload: Sequence[str], *, fork: bool = True) -> list[str]:
    """The command line of a zygote."""
    return [sys.executable, "-c", _SERVE, json.dumps({"fork": fork, "preload": list(preload)})]


class TrialProcess:
    """One trial's process, from its launch to its end. ``kill`` may be called by any thread at any time."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.forked = False
        self._status: int | None = None
        self._killed = False
        self._lock = threading.Lock()
        self._started = threading.Event()
        self._ended = threading.Event()

    def started(self, pid: int, *, forked: bool) -> None:
        with self._lock:
            self.pid, self.forked = pid, forked
            killed = self._killed
        if killed:
            kill_group(pid)
        self._started.set()

    def ended(self, status: int) -> None:
        with self._lock:
            self._status = status
            self._ended.set()
        self._started.set()

    def kill(self) -> None:
        """Kill the process with everything it started; one that is yet to start dies as soon as it does."""
        with self._lock:
            self._killed = True
            if self.pid is not None and not self._ended.is_set():
                kill_group(self.pid)

    def wait(self, seconds: float) -> int | None:
        """Wait for the end: the exit code, minus the signal that killed it, or None when its time was up.

        ``seconds`` count from the process's start; a new interpreter is given time for its imports on top.
        """
        if not self._started.wait(_START_SECONDS):
            self.kill()
            return LOST
        if self._ended.wait(seconds if self.forked else seconds + INTERPRETER_SECONDS):
            return self._status
        self.kill()
        self._ended.wait(_CLOSE_SECONDS)
        return None


class Launcher(Protocol):
    """Starts trial processes."""

    def start(self, folder: Path, *, fresh: bool, environment: Mapping[str, str]) -> TrialProcess:
        """Start the trial in ``folder``; ``fresh`` asks for a new interpreter, with additions to its environment."""

    def close(self) -> None:
        """Leave nothing behind."""


class Interpreters:
    """Starts each trial in a new interpreter, from this process."""

    def start(self, folder: Path, *, fresh: bool = True, environment: Mapping[str, str]) -> TrialProcess:
        process = TrialProcess()
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            child = subprocess.Popen(
                [sys.executable, "-m", "firstfault.trial.child", str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        process.started(child.pid, forked=False)
        threading.Thread(target=self._watch, args=(child, process), daemon=True, name="trial-end").start()
        return process

    def _watch(self, child: subprocess.Popen[bytes], process: TrialProcess) -> None:
        status = child.wait()
        kill_group(child.pid)
        process.ended(status)

    def close(self) -> None:
        """Nothing to do: who started a trial kills it."""


class Zygote:
    """The asking end of :mod:`firstfault.trial.zygote`; Linux only.

    Args:
        preload: modules to import beside torch.
        fork: False has it launch new interpreters only, and import nothing.
    """

    def __init__(self, preload: Sequence[str] = (), *, fork: bool = True) -> None:
        self._process = subprocess.Popen(
            zygote_command(preload, fork=fork),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal is the asking process's to handle
        )
        self.pid = self._process.pid
        self._running: dict[str, TrialProcess] = {}
        self._lock = threading.Lock()
        self._gone = False
        self._serving = False
        self._reader = threading.Thread(target=self._read, daemon=True, name="zygote")
        self._reader.start()

    @property
    def alive(self) -> bool:
        return not self._gone

    def start(self, folder: Path, *, fresh: bool, environment: Mapping[str, str]) -> TrialProcess:
        process = TrialProcess()
        with self._lock:
            self._running[str(folder)] = process
            gone = self._gone or not self._send(
                {"folder": str(folder), "fresh": fresh, "environment": dict(environment)}
            )
        if gone:
            process.ended(LOST)
        return process

    def _send(self, message: dict[str, Any]) -> bool:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self._heard(json.loads(line))
        finally:
            with self._lock:
                self._gone = True
                left, self._running = list(self._running.values()), {}
            for process in left:
                process.kill()
                process.ended(LOST)

    def _heard(self, message: dict[str, Any]) -> None:
        if "serving" in message:
            self._serving = True
        elif "note" in message:
            log.warning("%s", message["note"])
        elif "pid" in message:
            self._running[message["folder"]].started(message["pid"], forked=message["forked"])
        else:
            with self._lock:
                process = self._running.pop(message["folder"])
            process.ended(message["status"])

    def close(self) -> None:
        with self._lock:
            asked = self._serving and self._send({"end": True})
        if not asked:
            self._process.kill()  # still importing: it has no children yet
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_CLOSE_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


def kill_group(pid: int) -> None:
    """Kill a trial with everything it started; a child that has not yet made its session is killed by itself."""
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            os.kill(pid, signal.SIGTERM)
            return
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(pid, signal.SIGKILL)
