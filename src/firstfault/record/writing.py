"""From a session to a case on disk: called once, at the failure, or at the end of a run that swallowed one."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

import firstfault
from firstfault.case import source, store
from firstfault.case.device_asserts import parse_device_asserts
from firstfault.case.schema import Batch, Case, Failure, Memory, Progress, Rank, Source
from firstfault.record import rng
from firstfault.record.environment import environment
from firstfault.record.failure import plain
from firstfault.record.frames import owner_of
from firstfault.record.launch import Target
from firstfault.record.passes import NOTHING, Pass
from firstfault.record.session import First, Session, resident_bytes

MAX_BATCH_BYTES = 256 * 2**20  # of the kept batch; larger ones are known by ids, shapes and digest alone
_STDERR_TAIL = 8_000  # characters of standard error
_MAX_LOADERS = 64  # a loop that makes a loader anew each epoch has many alike
_MAX_UNSTEPPED = 50


def write_case(
    session: Session, first: First, target: Target, folder: Path, launcher: tuple[str, ...] = ()
) -> Path:
    """Write the case of a session's first failure and return its folder.

    The run's folder becomes the case's: what belongs to the run alone is deleted, then it is renamed.

    Raises:
        OSError: the store can't be written any more.
    """
    run = session.folder
    assert run is not None
    keep_batch(session, first)
    case = _facts(session, first, target, launcher)
    case_source = _source(target, run / "source", launcher)
    case = msgspec.structs.replace(case, source=case_source)
    states = {"main": first.states, "worker": first.worker_states, "devices": rng.device_states() or None}
    private = run / "private"
    private.mkdir(exist_ok=True)
    store.write_atomically(private / "rng.json", msgspec.json.encode(states))
    _tidy(run)
    store.write_atomically(run / "case.json", msgspec.json.format(msgspec.json.encode(case)))
    final = folder / case.id
    run.rename(final)
    session.folder = final
    return final


def _tidy(run: Path) -> None:
    """Delete what only the running process needed; the journal of batches stays, as private as the batch."""
    for path in [*run.glob("worker-*"), run / "run.json", run / "stderr"]:
        path.unlink(missing_ok=True)
    for journal in run.glob("journal*.jsonl"):
        journal.rename(run / "private" / journal.name)


def keep_batch(session: Session, first: First) -> None:
    """Write the batch in progress into ``private/`` while it is still there; once."""
    current = first.current
    if first.batch_written or current is None or session.folder is None:
        return
    first.batch_written = True
    described: dict[str, Any] = {}
    kept = False
    if current.batch is not NOTHING:
        with session.guarded("the batch could not be kept"):
            from firstfault.record import values

            described = values.describe_batch(current.batch)
            private = session.folder / "private"
            private.mkdir(exist_ok=True)
            kept = values.save_values(current.batch, private, "batch", MAX_BATCH_BYTES)
    first.batch = _batch(current, first.indices, described, kept)


def _batch(current: Pass, indices: Any, described: dict[str, Any], kept: bool) -> Batch:
    listed = isinstance(indices, (tuple, list))
    ids = None
    if listed and not (indices and indices[0] is None):
        ids = tuple(plain(index) for index in indices)
    elif indices is not None and not listed:
        ids = (plain(indices),)
    return Batch(
        indices=ids,
        size=len(indices) if listed else None if indices is None else 1,
        expected_size=current.loader.usual_size,
        worker=current.worker,
        kept=kept,
        **described,
    )


def progress(session: Session, failure: Failure, current: Pass | None, steps: tuple[int, ...]) -> Progress:
    """How far the run had come when it failed."""
    return Progress(
        loader=None if current is None else current.loader.number,
        pass_=None if current is None else current.number,
        batch=None if current is None else current.batch_number,
        last_completed_step=max(steps, default=0),
        steps_by_optimizer=steps,
        handed_out=session.batches,
        unstepped=tuple(each for state in session.loader_states for each in state.cadence.unstepped())[
            :_MAX_UNSTEPPED
        ],
    )


def _facts(session: Session, first: First, target: Target, launcher: tuple[str, ...]) -> Case:
    printed = session.read_stderr()
    failure = msgspec.structs.replace(
        first.failure,
        consequences=tuple(session.consequences),
        device_asserts=parse_device_asserts(printed),
        stderr_tail=printed[-_STDERR_TAIL:] or None,
    )
    return Case(
        firstfault=firstfault.__version__,
        id=store.new_id(),
        created=time.time(),
        failure=failure,
        progress=first.progress or progress(session, failure, first.current, first.steps),
        batch=first.batch,
        loaders=tuple(
            msgspec.structs.replace(state.facts, passes=state.passes)
            for state in session.loader_states[:_MAX_LOADERS]
        ),
        environment=environment(),
        source=Source(),
        rank=_rank(),
        memory=_memory(session),
        rng=tuple(
            name
            for name in ("main", "worker")
            if getattr(first, "states" if name == "main" else "worker_states")
        ),
        notes=tuple(session.notes),
    )


def _memory(session: Session) -> Memory:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Memory(rss=resident_bytes(), peak_rss=peak, history=tuple(session.memory), device=_device_memory())


def _device_memory() -> dict[str, dict[str, int]]:
    """What torch's allocator holds on each device: counters on the host, no call to a driver."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    found = {}
    for number in range(torch.cuda.device_count()):
        with contextlib.suppress(Exception):
            statistics = torch.cuda.memory_stats(number)
            found[f"cuda:{number}"] = {
                "allocated": statistics.get("allocated_bytes.all.current", 0),
                "allocated_peak": statistics.get("allocated_bytes.all.peak", 0),
                "reserved": statistics.get("reserved_bytes.all.current", 0),
            }
    return found


def _rank() -> Rank | None:
    number = os.environ.get("RANK", "")
    if not number.isdigit():
        return None
    size, local = os.environ.get("WORLD_SIZE", ""), os.environ.get("LOCAL_RANK", "")
    return Rank(
        rank=int(number),
        world_size=int(size) if size.isdigit() else None,
        local_rank=int(local) if local.isdigit() else None,
    )


def _source(target: Target, copies: Path, launcher: tuple[str, ...]) -> Source:
    files: dict[str, bytes] = {}
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    for path in (
        main,
        *sorted({getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}),
    ):
        if path and path not in files and path.endswith(".py") and owner_of(path) == "user":
            with contextlib.suppress(OSError):
                files[path] = Path(path).read_bytes()
    root, copied = source.copy_source(files, copies) if files else ("", ())
    commit, modified = source.git_state(root or os.getcwd())
    return Source(
        script=os.path.abspath(target.script) if target.script else None,
        module=target.module,
        argv=target.arguments,
        cwd=_STARTED_IN,
        root=root,
        commit=commit,
        modified=modified,
        files=copied,
        launcher=launcher,
    )


_STARTED_IN = os.getcwd()  # the script may change it
