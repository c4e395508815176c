"""Standard error as the file descriptor sees it: what a driver prints past Python, device assertions above all.

A regular file is simply read from where the run began. Anything else needs a copy on the way, so on machines with an
accelerator (and nowhere else) a small process stands between: it passes every byte on and keeps the last ones. A
terminal stays a terminal to the script.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path

KEPT_BYTES = 256 * 1024  # of the output's beginning and of its end: an assertion prints one line a thread
_DEVICE_NODES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD128")
_FILE_NAME = "stderr"
_DRAIN_SECONDS = 1.0  # for the copying process to pass the last bytes on

Read = Callable[[], str]


def watch(folder: Path | None) -> tuple[Read, Callable[[], None]]:
    """Begin watching; gives a function that reads what was printed so far, and one that ends it."""
    with contextlib.suppress(OSError, ValueError):
        state = os.fstat(2)
        if stat.S_ISREG(state.st_mode):
            return _from_file(os.readlink("/proc/self/fd/2"), os.lseek(2, 0, os.SEEK_CUR)), lambda: None
        if folder is not None and _wanted():
            return _through_copier(folder / _FILE_NAME)
    return (lambda: ""), lambda: None


def _wanted() -> bool:
    """FIRSTFAULT_STDERR=copy or off decides; else whether the machine has an accelerator that prints past Python."""
    choice = os.environ.get("FIRSTFAULT_STDERR", "auto")
    return choice == "copy" or (
        choice == "auto" and sys.platform == "linux" and any(map(os.path.exists, _DEVICE_NODES))
    )


def _from_file(path: str, start: int) -> Read:
    def read() -> str:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            file.seek(start)
            first = file.read(KEPT_BYTES)
            size = os.fstat(file.fileno()).st_size
            if size - start > 2 * KEPT_BYTES:
                file.seek(size - KEPT_BYTES)
            return (first + file.read(KEPT_BYTES)).decode(errors="replace")
        return ""

    return read


def _through_copier(path: Path) -> tuple[Read, Callable[[], None]]:
    original = os.dup(2)
    os.set_inheritable(original, False)
    reading, writing = os.openpty() if os.isatty(original) else os.pipe()
    if os.isatty(original):
        _like(original, writing)
    copier = os.fork()
    if copier == 0:
        os.close(writing)
        _copy(reading, original, path)
    os.close(reading)
    sys.stderr.flush()
    os.dup2(writing, 2)
    os.close(writing)

    def stop() -> None:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)
            _wait(copier)

    return _from_file(str(path), 0), stop


def _like(terminal: int, copy: int) -> None:
    """Give the stand-in terminal the settings and the size of the real one."""
    with contextlib.suppress(Exception):
        import fcntl
        import termios

        attributes = termios.tcgetattr(terminal)
        attributes[1] &= ~termios.OPOST  # the real terminal does that
        termios.tcsetattr(copy, termios.TCSANOW, attributes)
        fcntl.ioctl(copy, termios.TIOCSWINSZ, fcntl.ioctl(terminal, termios.TIOCGWINSZ, b"\0" * 8))


def _copy(reading: int, original: int, path: Path) -> None:
    """The copying process: passes bytes on until nobody can write any more; never returns."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    kept = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    written = 0
    while True:
        try:
            data = os.read(reading, 65536)
        except OSError:
            break  # a terminal without writers ends in an error
        if not data:
            break
        with contextlib.suppress(OSError):
            os.write(original, data)
        if written < 64 * KEPT_BYTES:
            with contextlib.suppress(OSError):
                written += os.write(kept, data)
    os._exit(0)


def _wait(copier: int) -> None:
    """Wait for the copier to end; children that still hold the descriptor keep it alive, so not for long."""
    import time

    deadline = time.monotonic() + _DRAIN_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(copier, os.WNOHANG)[0]:
                return
            time.sleep(0.005)
            continue
        return
