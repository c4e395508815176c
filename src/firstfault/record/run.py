"""``firstfault run``: the script in this process, recorded, with its output, exit code and traceback its own."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from firstfault.case import store
from firstfault.errors import UsageError
from firstfault.record import stderr
from firstfault.record.failure import earlier, first_of
from firstfault.record.frames import without_own_frames
from firstfault.record.handled import watch
from firstfault.record.launch import Target, check, execute
from firstfault.record.session import First, Session, discard
from firstfault.record.swallowed import Suspicion
from firstfault.record.torch_hook import when_torch_is_imported

Report = Callable[[Path], str]


def run(target: Target, cases: Path, report: Report, launcher: tuple[str, ...] = ()) -> None:
    """Run the target; on a failure write its case, let python print the traceback, then print ``report(case)``.

    Whatever the script raises goes through to the interpreter, so exit codes and signals are plain python's.

    Raises:
        UsageError: the script is missing or can't be read; nothing was started.
    """
    check(target)
    session, suspicion, stop = start(cases, target)
    try:
        execute(target)
    except UsageError:
        stop()
        discard(session)
        raise
    except BaseException as error:
        case = _after(session, suspicion, error, target, cases, launcher)
        stop()
        _hand_over_to_python(error, functools.partial(report, case) if case is not None else None)
        raise
    case = _after(session, suspicion, None, target, cases, launcher)
    stop()
    if case is None:
        _say(f"firstfault: no failure in {session.batches:,} batches, {session.steps:,} steps; nothing kept")
    else:
        _say(report(case))


def start(cases: Path, target: Target) -> tuple[Session, Suspicion, Callable[[], None]]:
    """Begin recording in this process; the returned function ends it and restores what was patched."""
    session = Session(_run_folder(cases, target))
    session.read_stderr, end_stderr = stderr.watch(session.folder)
    suspicion = Suspicion(session)
    session.doubter = suspicion
    undo: list[Callable[[], None]] = [watch(suspicion.handled)]
    when_torch_is_imported(lambda: undo.extend(tap_torch(session)))
    os.register_at_fork(after_in_child=lambda: _off_in_child(session))
    undo += [_mark_deliberate_exits(session), end_stderr]

    def stop() -> None:
        session.close()
        for each in undo:
            with contextlib.suppress(Exception):
                each()

    return session, suspicion, stop


def tap_torch(session: Session) -> list[Callable[[], None]]:
    """Tap torch's loaders and optimizers for a session; returns what undoes it."""
    undo: list[Callable[[], None]] = []
    with session.guarded("torch could not be tapped"):
        from torch.optim.optimizer import register_optimizer_step_post_hook

        from firstfault.record.loaders import tap

        undo.append(tap(session))
        undo.append(register_optimizer_step_post_hook(session.step).remove)
    return undo


def _off_in_child(session: Session) -> None:
    session.on = False


def _run_folder(cases: Path, target: Target) -> Path | None:
    """The folder of this run; in the temporary folder, said so, when the cases' own can't be written."""
    for candidate in (cases, None):
        parent = candidate or _temporary_folder()
        folder = parent / f"{store.RUNNING}{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        try:
            store.make_folder(parent)
            folder.mkdir()
            record = {
                "pid": os.getpid(),
                "started": time.time(),
                "target": msgspec.to_builtins(target),
                "cwd": os.getcwd(),
            }
            (folder / "run.json").write_bytes(msgspec.json.encode(record))
            return folder.absolute()
        except OSError as error:
            reason = error.strerror or str(error)
            _say(
                f"firstfault: {parent} can't be written ({reason}); "
                + ("trying the temporary folder" if candidate is not None else "no case will be kept")
            )
    return None


def _temporary_folder() -> Path:
    import tempfile

    return Path(tempfile.gettempdir()) / f"firstfault-{os.getuid() if hasattr(os, 'getuid') else 0}"


def _mark_deliberate_exits(session: Session) -> Callable[[], None]:
    """``os._exit`` ends a process at once: an exit, not a failure, so nothing of the run is left behind."""
    exit_ = os._exit

    def _exit(status: int) -> Any:
        if session.on:
            with contextlib.suppress(Exception):
                discard(session)
        exit_(status)

    os._exit = _exit  # type: ignore[assignment]

    def undo() -> None:
        os._exit = exit_

    return undo


def is_failure(error: BaseException | None) -> bool:
    """Exits aren't failures: ``sys.exit``, Ctrl-C, a closed generator."""
    return isinstance(error, Exception)


def first_failure(session: Session, suspicion: Suspicion, error: BaseException | None) -> First | None:
    """The first failure of a run that ended with ``error``, or well: a swallowed one, the raised one, or none."""
    suspicion.resolve(error)
    raised = error if is_failure(error) else None
    if session.first is None:
        if raised is None:
            return None
        original = first_of(raised)
        session.first = session.failure_from(original)
        while raised is not original and raised is not None:
            session.follows(raised)
            raised = earlier(raised)
    elif raised is not None:
        session.follows(raised, "raised later, after the first failure had been handled by the script")
    return session.first


def _after(
    session: Session,
    suspicion: Suspicion,
    error: BaseException | None,
    target: Target,
    cases: Path,
    launcher: tuple[str, ...],
) -> Path | None:
    """Write the case if there was a failure; else leave nothing behind."""
    case = None
    with session.guarded("the case could not be written"):
        if (
            isinstance(error, SyntaxError)
            and not session.loader_states
            and _in_the_script_itself(error, target)
        ):
            first = None
        else:
            first = first_failure(session, suspicion, error)
        if first is not None and session.folder is not None:
            from firstfault.record import writing

            case = writing.write_case(session, first, target, session.folder.parent, launcher)
    if case is None:
        with contextlib.suppress(Exception):
            discard(session)
    return case


def _in_the_script_itself(error: SyntaxError, target: Target) -> bool:
    return bool(target.script) and os.path.abspath(target.script or "") == error.filename


def _hand_over_to_python(error: BaseException, report: Callable[[], str] | None) -> None:
    """Let the interpreter print the traceback as it would have, without firstfault's frames, and the box after it."""
    script_hook = sys.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, traceback: TracebackType | None) -> None:
        prune(value)
        script_hook(kind, value, value.__traceback__)
        if report is not None:
            try:
                _say(report())
            except Exception as broken:
                _say(
                    f"firstfault: the case was written, but can't be shown: {type(broken).__name__}: {broken}"
                )

    sys.excepthook = excepthook


def prune(error: BaseException) -> None:
    """Take firstfault's frames out of an exception's traceback and those of the exceptions before it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        current.__traceback__ = without_own_frames(current.__traceback__)
        current = current.__cause__ or current.__context__


def _say(text: str) -> None:
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.write(text.rstrip("\n") + "\n")
        sys.stderr.flush()
