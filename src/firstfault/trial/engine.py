"""Runs trials: each in a fresh process, several at once, killed with its children at its limits.

Fresh processes are forked from a zygote where that is safe, and are new interpreters where it isn't or where a plan asks
for one (:mod:`firstfault.trial.processes`). A trial whose process died without a word is 'lost' unless the signal tells
that it failed by itself; a lost trial is never 'the same'.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType

import msgspec

from firstfault.case.schema import ExceptionInfo, Failure
from firstfault.errors import FirstFaultError, UsageError
from firstfault.trial.child import SCRATCH
from firstfault.trial.identity import identity
from firstfault.trial.outcome import Outcome
from firstfault.trial.plan import Plan
from firstfault.trial.processes import Interpreters, Launcher, TrialProcess, Zygote

STDERR_TAIL = 4_000  # characters of a trial's standard error that its outcome keeps
KEPT_FOLDERS = 200  # trial folders left in a workspace; older ones are deleted
MAX_OUTPUT_BYTES = (
    16 * 2**20
)  # of each of a trial's output files once it has ended; a loop that prints fills a disk
_CALL_OFF_SECONDS = 10.0  # for killed trials to be gone
# Signals by which a process fails by itself; SIGKILL and SIGTERM come from outside.
_OWN_SIGNALS = {"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL"}

Progress = Callable[[int, Plan, Outcome], None]
log = logging.getLogger("firstfault.trial")


class Engine:
    """Owns the zygote and at most ``jobs`` trials at once. A context manager: nothing of it outlives the block.

    The outcome of an equal plan is taken as long as the source that it ran stays what it is; trials that were lost or
    timed out are run again. What else a trial reads, its data above all, is taken to stay the same for the engine's life.

    Ctrl-C kills what runs and goes on as KeyboardInterrupt; finished outcomes are kept, so the same engine asked the
    same again continues where it was.

    Args:
        workspace: folder for the trials' folders; made when missing.
        jobs: trials at once; the number of usable cores by default. Trials on one accelerator share its memory.
        preload: modules that the zygote imports beside torch.
        progress: called after each executed trial with the count so far, one call at a time, from the engine's threads.
        fork: False uses new interpreters only.

    Attributes:
        trials: how many were really executed; outcomes taken from earlier equal plans don't count.

    Raises:
        UsageError: the workspace can't be written, or ``jobs`` is not positive.
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
        if jobs is not None and jobs < 1:
            raise UsageError(f"{jobs} trials at once can't be run; give --jobs 1 or more")
        self.workspace = workspace.absolute()
        self.jobs = jobs or usable_cores()
        self.trials = 0
        self.progress = progress
        self._lock = threading.Lock()
        self._reporting = threading.Lock()
        self._known: dict[str, Outcome] = {}
        self._folders = _existing_folders(self.workspace)
        self._flying: set[_Trial] = set()
        self._closed = False
        self._launcher: Launcher = Zygote(preload, fork=fork) if sys.platform == "linux" else Interpreters()
        self._pool = ThreadPoolExecutor(self.jobs, thread_name_prefix="trial")

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill what still runs."""
        self._closed = True
        _call_off(list(self._flying))
        self._launcher.close()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def run(self, plan: Plan) -> Outcome:
        """Run one trial and wait for its outcome."""
        return self.run_all([plan])[0]

    def run_all(self, plans: Iterable[Plan]) -> list[Outcome]:
        """Run several trials side by side; outcomes come in the order of the plans."""
        plans = list(plans)
        with contextlib.closing(self._in_order(plans, ahead=len(plans))) as outcomes:
            return list(outcomes)

    def first(self, plans: Sequence[Plan], accept: Callable[[Outcome], bool]) -> tuple[int, Outcome] | None:
        """The first plan, in the given order, whose outcome is accepted; None when none is.

        Trials are speculated ahead, but an outcome counts only when all plans before it were refused, so the result
        doesn't depend on the number of jobs. What was speculated in vain is called off.
        """
        with contextlib.closing(self._in_order(plans, ahead=self.jobs)) as outcomes:
            for number, outcome in enumerate(outcomes):
                if accept(outcome):
                    return number, outcome
        return None

    # ---- trials in flight -----------------------------------------------------------------------------------------

    def _in_order(self, plans: Iterable[Plan], ahead: int) -> Generator[Outcome, None, None]:
        """Outcomes in the order of the plans, with at most ``ahead`` trials begun and not yet handed out."""
        begun: deque[_Trial] = deque()
        coming = iter(plans)
        try:
            while True:
                while len(begun) < ahead and not (begun and begun[0].future.done()):
                    plan = next(coming, None)
                    if plan is None:
                        break
                    begun.append(self._begin(plan))
                if not begun:
                    return
                outcome = begun[0].future.result()
                begun.popleft()
                yield outcome
        finally:
            _call_off(begun)

    def _begin(self, plan: Plan) -> _Trial:
        if self._closed:
            raise FirstFaultError(
                "a trial was asked of a closed engine; keep the engine open while steps run"
            )
        trial = _Trial(plan, identity(plan))
        if not self._known_already(trial):
            self._flying.add(trial)
            trial.future.add_done_callback(lambda _: self._flying.discard(trial))
            trial.queued = self._pool.submit(self._fly, trial)
        return trial

    def _known_already(self, trial: _Trial) -> bool:
        """Give the trial the outcome of an equal one, if what its instruments wrote is still there."""
        with self._lock:
            known = self._known.get(trial.identity or "")
        if known is None or (trial.plan.instruments and not Path(known.folder or "").is_dir()):
            return False
        trial.future.set_result(known)
        return True

    def _fly(self, trial: _Trial) -> None:
        """Run one trial in a thread of the pool."""
        if self._known_already(trial):  # an equal one was in flight when this one was asked for
            return
        try:
            outcome = self._execute(trial)
            with self._lock:
                self.trials += 1
                count = self.trials
                if trial.identity is not None and outcome.ended not in ("lost", "timed_out"):
                    self._known[trial.identity] = outcome
            if self.progress is not None and not trial.called_off:
                with self._reporting:
                    self.progress(count, trial.plan, outcome)
            trial.future.set_result(outcome)
        except BaseException as error:
            trial.future.set_exception(error)

    # ---- one trial ------------------------------------------------------------------------------------------------

    def _execute(self, trial: _Trial) -> Outcome:
        plan, variant = trial.plan, trial.plan.variant
        environment = dict(variant.environment) if variant is not None else {}
        try:
            folder = self._new_folder()
            (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
            process = self._usable_launcher().start(
                folder, fresh=plan.new_interpreter or bool(environment), environment=environment
            )
        except OSError as error:
            return Outcome(
                ended="lost",
                reason=f"the trial could not be started: {error}; check {self.workspace} and free space",
            )
        trial.fly_in(process)
        ended = process.wait(plan.seconds)
        outcome = read_outcome(folder, ended, plan.seconds)
        _tidy(folder)
        return outcome

    def _usable_launcher(self) -> Launcher:
        with self._lock:
            if isinstance(self._launcher, Zygote) and not self._launcher.alive:
                log.warning(
                    "the process that trials are forked from died; trials get new interpreters, which take seconds each"
                )
                self._launcher.close()
                self._launcher = Interpreters()
            return self._launcher

    def _new_folder(self) -> Path:
        self.workspace.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self.workspace))
        with self._lock:
            self._folders.append(folder)
            old = [self._folders.popleft() for _ in range(len(self._folders) - KEPT_FOLDERS)]
        for each in old:
            shutil.rmtree(each, ignore_errors=True)
        return folder


class _Trial:
    """A trial from the moment it was asked for to its outcome."""

    def __init__(self, plan: Plan, identity: str | None) -> None:
        self.plan = plan
        self.identity = identity
        self.future: Future[Outcome] = Future()
        self.queued: Future[None] | None = None
        self.called_off = False
        self._process: TrialProcess | None = None

    def fly_in(self, process: TrialProcess) -> None:
        self._process = process
        if self.called_off:
            process.kill()

    def call_off(self) -> None:
        """Have it end now; its outcome, when it has not begun or not ended, is 'lost'."""
        self.called_off = True
        if self.queued is not None and self.queued.cancel():
            self.future.set_result(Outcome(ended="lost", reason="it was called off"))
        elif self._process is not None:
            self._process.kill()


def _call_off(trials: Iterable[_Trial]) -> None:
    unfinished = [trial for trial in trials if not trial.future.done()]
    for trial in unfinished:
        trial.call_off()
    wait([trial.future for trial in unfinished], _CALL_OFF_SECONDS)


def usable_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# ---- the trials' folders ----------------------------------------------------------------------------------------------

_PREFIX = "trial-"


def _existing_folders(workspace: Path) -> deque[Path]:
    """The trial folders that earlier engines left, oldest first.

    Raises:
        UsageError: the workspace can't be written.
    """
    try:
        workspace.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=workspace).close()
        found = [each for each in workspace.iterdir() if each.name.startswith(_PREFIX)]
        return deque(sorted(found, key=lambda each: each.stat().st_mtime))
    except OSError as error:
        raise UsageError(
            f"{workspace} can't be written: {error.strerror or error}; check permissions and free space"
        ) from None


def _tidy(folder: Path) -> None:
    """Leave of a trial what others read: its plan, its outcome, its output, what its instruments wrote."""
    shutil.rmtree(folder / SCRATCH, ignore_errors=True)
    for name in ("stdout", "stderr"):
        with contextlib.suppress(OSError):
            if (folder / name).stat().st_size > MAX_OUTPUT_BYTES:
                os.truncate(folder / name, MAX_OUTPUT_BYTES)


# ---- outcomes ---------------------------------------------------------------------------------------------------------


def read_outcome(folder: Path, ended: int | None, seconds: float) -> Outcome:
    """The outcome that the trial wrote, or what its death tells.

    Args:
        folder: the trial's folder.
        ended: the process's exit code, minus the signal that killed it, or None when its time was up.
        seconds: how long it was given.
    """
    tail = _tail(folder / "stderr")
    try:
        outcome = msgspec.json.decode((folder / "outcome.json").read_bytes(), type=Outcome)
        return msgspec.structs.replace(outcome, stderr_tail=tail)
    except (OSError, msgspec.MsgspecError):
        bare = Outcome(ended="lost", stderr_tail=tail, folder=str(folder))
    if ended is None:
        reason = f"it ran for more than {seconds:g} s and was killed"
        return msgspec.structs.replace(bare, ended="timed_out", seconds=seconds, reason=reason)
    if ended >= 0:
        return msgspec.structs.replace(
            bare, exit_code=ended, reason=f"its process ended with {ended} and left no outcome"
        )
    name = _signal_name(-ended)
    if name not in _OWN_SIGNALS:
        reason = f"its process was killed from outside by {name}; when memory was short, run fewer at once with --jobs 1"
        return msgspec.structs.replace(bare, signal=-ended, reason=reason)
    exception = ExceptionInfo(type=name, message=_fatal_line(tail))
    failure = Failure(kind="killed", phase="other", exception=exception, stderr_tail=tail)
    return msgspec.structs.replace(bare, ended="failed", failure=failure, signal=-ended, reached=True)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _fatal_line(tail: str) -> str:
    return next((line for line in tail.splitlines() if line.startswith("Fatal Python error")), "")


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - STDERR_TAIL))
            return file.read(STDERR_TAIL).decode(errors="replace")
    except OSError:
        return ""
