"""One recorded run: what is known while it goes on, at next to no cost, and what is written when it fails.

The taps (loaders, optimizers, handled exceptions) tell the session what happens; it keeps counters, the batch in
progress and the first failure. Nothing on a device is touched, ever.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec

from firstfault.case.schema import Batch, Consequence, Failure, Phase, Progress, WorkerFailure
from firstfault.record import failure as failure_
from firstfault.record import frames, rng, workers
from firstfault.record.describe_loader import loader_facts
from firstfault.record.passes import NOTHING, LoaderState, Pass

MAX_JOURNAL_BYTES = 32 * 2**20  # of batches' indices on disk; the older half is dropped beyond it
_MEMORY_EVERY = 5.0  # seconds between two looks at the process's memory
_MAX_MEMORY = 512  # figures kept; every second one is dropped when full
_MAX_CONSEQUENCES = 20


class Watcher(Protocol):
    """What a trial adds to a session: it is told of each batch and of a failure that the script swallowed."""

    def asked(self, current: Pass) -> None: ...

    def handed_out(self, current: Pass, batch: Any) -> None: ...

    def swallowed(self, first: First) -> None: ...


class Doubter(Protocol):
    """Judges handled exceptions (:class:`firstfault.record.swallowed.Suspicion`)."""

    def batch_over(self, current: Pass) -> None: ...


class First:
    """The first failure with everything that must be kept at once, before the script goes on or unwinds."""

    __slots__ = (
        "batch",
        "batch_written",
        "current",
        "error",
        "failure",
        "indices",
        "progress",
        "states",
        "steps",
        "worker_states",
    )

    def __init__(self, error: BaseException | None, failure: Failure, current: Pass | None) -> None:
        self.error = error
        self.failure = failure
        self.current = current
        self.indices: Any = None
        self.batch_written = False
        self.batch: Batch | None = None
        self.progress: Progress | None = None
        self.states: rng.States | None = None
        self.worker_states: rng.States | None = None
        self.steps: tuple[int, ...] = ()


class Session:
    """See the module. ``folder`` is the run's folder, None while nothing may be written."""

    def __init__(self, folder: Path | None = None, watcher: Watcher | None = None) -> None:
        self.on = True
        self.folder = folder
        self.watcher = watcher
        self.doubter: Doubter | None = None
        self.read_stderr: Callable[[], str] = lambda: ""
        self.started = time.time()
        self.loaders: weakref.WeakKeyDictionary[Any, LoaderState] = weakref.WeakKeyDictionary()
        self.loader_states: list[LoaderState] = []
        self.passes: list[Pass] = []
        self.current: Pass | None = None
        self.failing: Pass | None = None
        self.fetch: WorkerFailure | None = None
        self.batches = 0
        self.steps = 0
        self.optimizers: dict[int, int] = {}
        self.first: First | None = None
        self.consequences: list[Consequence] = []
        self.memory: list[tuple[int, int]] = []
        self.notes: list[str] = []
        self._memory_due = 0.0
        self._journal: int | None = None
        self._journal_bytes = 0
        self._warned = False
        if folder is not None:
            with self.guarded("the journal could not be opened"):
                self._journal = os.open(
                    folder / "journal.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
                )

    # ---- the taps' side -------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Whatever goes wrong inside is one warning line, and the script goes on."""
        try:
            yield
        except Exception as error:
            self.warn(f"{what}: {type(error).__name__}: {error}")

    def warn(self, text: str) -> None:
        self.notes.append(text)
        if not self._warned:
            self._warned = True
            with contextlib.suppress(Exception):
                sys.stderr.write(f"firstfault: {text}; the run goes on\n")

    def open_pass(self, loader: Any, iterator: Any, workers_: int) -> Pass:
        """A pass over a loader begins."""
        state = self.loaders.get(loader)
        if state is None:
            state = LoaderState(loader_facts(loader, len(self.loader_states)))
            self.loaders[loader] = state
            self.loader_states.append(state)
        opened = Pass(state, state.passes, iterator, workers_, self.steps)
        state.passes += 1
        self.passes = [each for each in self.passes if each.alive]
        self.passes.append(opened)
        return opened

    def asked(self, current: Pass) -> None:
        """The loop asks for the next batch: the one before is through."""
        if self.doubter is not None:
            self.doubter.batch_over(current)
        current.batch = NOTHING
        self.failing = None
        if self.watcher is not None:
            self.watcher.asked(current)

    def handed_out(self, current: Pass, iterator: Any, batch: Any) -> None:
        current.batch_number += 1
        self.batches += 1
        try:
            current.indices = current.taken(iterator)
            if current.workers:
                current.rng.take()
            current.batch = batch
            current.steps_at_handout = self.steps
            self.current = current
            current.loader.cadence.batch(
                current.loader.number, current.number, current.batch_number, current.indices
            )
            self._note(current)
        except Exception as error:
            self.warn(f"a batch could not be recorded: {type(error).__name__}: {error}")
        if self.watcher is not None:
            self.watcher.handed_out(current, batch)

    def ended(self, current: Pass) -> None:
        current.ended = True
        current.batch = NOTHING

    def confirmed(self, first: First) -> None:
        """A handled exception turned out to be a swallowed failure."""
        if self.watcher is not None:
            self.watcher.swallowed(first)

    def fetch_failed(self, current: Pass, iterator: Any, error: BaseException) -> None:
        """A fetch raised: the batch that should have come out next is the one at fault."""
        with self.guarded("a failed fetch could not be recorded"):
            current.batch_number += 1
            current.batch = NOTHING
            waited = current.next_to_come(iterator)
            taken = current.taken(iterator) if current.worker is not None or not current.workers else None
            current.indices = waited if taken is None else taken
            self.current = self.failing = current
            self.fetch = None
            if current.workers and current.worker is not None and self.folder is not None:
                count = current.fetches_of.get(current.worker, -1)
                self.fetch = workers.read_failure(self.folder, current.states_name, current.worker, count)
            if self.fetch is None:
                self.fetch = failure_.fetch_failure(error.__traceback__, current.indices)

    def step(self, optimizer: Any, *_: Any) -> None:
        """An optimizer completed a step (torch's global post hook)."""
        if not self.on:
            return
        key = id(optimizer)
        count = self.optimizers.get(key, 0) + 1
        self.optimizers[key] = count
        if count > self.steps:
            self.steps = count
            if self.current is not None:
                self.current.loader.cadence.step()

    def _note(self, current: Pass) -> None:
        if self._journal is None:
            return
        line = _ENCODE(
            (current.loader.number, current.number, current.batch_number, _journalled(current.indices))
        )
        os.write(self._journal, line + b"\n")
        self._journal_bytes += len(line) + 1
        if self._journal_bytes > MAX_JOURNAL_BYTES:
            self._rotate()
        if (now := time.monotonic()) >= self._memory_due:
            self._memory_due = now + _MEMORY_EVERY
            self._look_at_memory()

    def _rotate(self) -> None:
        assert self.folder is not None
        assert self._journal is not None
        os.close(self._journal)
        (self.folder / "journal.jsonl").replace(self.folder / "journal.older.jsonl")
        self._journal = os.open(self.folder / "journal.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._journal_bytes = 0

    def _look_at_memory(self) -> None:
        rss = resident_bytes()
        if rss is not None:
            self.memory.append((self.batches, rss))
            if len(self.memory) > _MAX_MEMORY:
                del self.memory[::2]

    # ---- failures -------------------------------------------------------------------------------------------------

    def in_progress(self, error: BaseException | None = None) -> Pass | None:
        """The pass whose batch is being worked on, or was when ``error`` was raised.

        It is the latest that handed a batch out and still goes on.
        """
        if self.failing is not None:
            return self.failing
        traceback = None if error is None else error.__traceback__
        latest = [] if self.current is None else [self.current]
        for each in latest + self.passes[::-1]:
            if each.batch is not NOTHING and each.was_in_progress(traceback):
                return each
        return None

    def phase_of(self, error: BaseException, grad_enabled: bool | None = None) -> Phase:
        if self.failing is not None:
            return "data"
        if not self.loader_states:
            return "setup"
        current = self.in_progress(error)
        if current is None:
            return "other"
        return failure_.phase_in_loop(
            error.__traceback__, steps_in_pass=self.steps > current.steps_at_start, grad_enabled=grad_enabled
        )

    def failure_from(
        self, error: BaseException, *, swallowed: bool = False, grad_enabled: bool | None = None
    ) -> First:
        """Everything about a failure that is gone once the script goes on."""
        current = self.in_progress(error)
        described = failure_.describe(
            error,
            self.phase_of(error, grad_enabled),
            fetch=self.fetch if self.failing is not None else None,
            swallowed=swallowed,
            grad_enabled=grad_enabled,
        )
        first = First(error, described, current)
        first.steps = tuple(self.optimizers.values())
        if current is not None:
            first.indices = current.indices
            first.states = current.rng.states()
            if current.worker is not None and self.folder is not None:
                count = current.fetches_of.get(current.worker, -1)
                first.worker_states = workers.read_states(
                    self.folder, current.states_name, current.worker, count, current.slots
                )
        return first

    def follows(self, error: BaseException, note: str | None = None) -> None:
        """A later failure: a consequence of the first one."""
        if len(self.consequences) < _MAX_CONSEQUENCES:
            traceback = frames.frames_of(error.__traceback__)
            self.consequences.append(
                Consequence(
                    exception=failure_.exception_info(error),
                    seen=frames.innermost_user_frame(traceback),
                    note=note,
                )
            )

    def close(self) -> None:
        """Stop recording; the folder stays as it is."""
        self.on = False
        if self._journal is not None:
            os.close(self._journal)
            self._journal = None


def discard(session: Session) -> None:
    """Remove the run's folder, and the folder of cases when it holds nothing else."""
    if session.folder is None:
        return
    import shutil

    parent = session.folder.parent
    shutil.rmtree(session.folder, ignore_errors=True)
    remaining = {each.name for each in parent.iterdir()} if parent.is_dir() else {""}
    if remaining <= {".gitignore"}:
        shutil.rmtree(parent, ignore_errors=True)


_ENCODE = msgspec.json.Encoder(enc_hook=failure_.plain).encode


def _journalled(indices: Any) -> Any:
    if type(indices) is tuple and indices and indices[0] is None:
        return len(indices)  # an iterable data set has no indices: only the size is known
    return indices


def resident_bytes() -> int | None:
    """This process's resident memory; None where the system doesn't tell (it does on Linux)."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
