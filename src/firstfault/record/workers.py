"""What happens inside a DataLoader's worker processes: their random states at each fetch, and the sample at fault.

Workers write into files of the run's folder, never into the queues that carry the batches. The hook travels as the
worker's ``worker_init_fn``, so it reaches forked, spawned and fork-server workers alike.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from firstfault.case.schema import WorkerFailure
from firstfault.record import compat, rng
from firstfault.record.failure import fetch_failure

SLOT_BYTES = 32_768  # a snapshot takes some 10 kB; the rest is for generator objects of the data set
_HEADER = struct.Struct("<qi")  # which fetch of this worker, length of the snapshot


class WorkerHook:
    """The worker's first function: installs the recorder in the worker, then runs the user's own function.

    Args:
        user: the user's ``worker_init_fn``, or None.
        folder: the run's folder.
        name: names this loader's and pass's files.
        slots: how many of its last fetches each worker keeps.
    """

    def __init__(self, user: Callable[[int], Any] | None, folder: str, name: str, slots: int) -> None:
        self.user, self.folder, self.name, self.slots = user, folder, name, slots

    def __call__(self, worker: int) -> None:
        try:
            _install(self, worker)
        except Exception:
            pass  # a recorder fault never breaks a run: this worker is simply not recorded
        if self.user is not None:
            self.user(worker)


def _install(hook: WorkerHook, worker: int) -> None:
    path = states_path(Path(hook.folder), hook.name, worker)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    info = compat.worker_module()._worker_info
    generators = rng.generators_of(info.dataset) if info is not None else []
    count = 0
    owner = os.getpid()

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def fetch(self: Any, indices: Any) -> Any:
            nonlocal count
            if os.getpid() == owner:
                _write_states(handle, count, hook.slots, generators)
                count += 1
            try:
                return original(self, indices)
            except StopIteration:
                raise
            except Exception as error:
                _write_failure(hook, worker, count - 1, error, indices)
                raise

        return fetch

    for fetcher in compat.fetcher_classes():
        fetcher.fetch = around(fetcher.fetch)


def _write_states(handle: int, count: int, slots: int, generators: list[tuple[str, Any]]) -> None:
    try:
        data = rng.encode(rng.take(generators))
        if len(data) + _HEADER.size <= SLOT_BYTES:
            os.pwrite(handle, _HEADER.pack(count, len(data)) + data, (count % slots) * SLOT_BYTES)
    except Exception:
        pass  # a full disk costs the worker's random states, not the run


def _write_failure(hook: WorkerHook, worker: int, count: int, error: Exception, indices: Any) -> None:
    try:
        failure = fetch_failure(error.__traceback__, indices, worker)
        if failure is not None:
            failure_path(Path(hook.folder), hook.name, worker, count).write_bytes(
                msgspec.json.encode(failure)
            )
    except Exception:
        pass


def states_path(folder: Path, name: str, worker: int) -> Path:
    return folder / f"worker-{name}-{worker}.states"


def failure_path(folder: Path, name: str, worker: int, count: int) -> Path:
    return folder / f"worker-{name}-{worker}-{count}.failure.json"


def read_states(folder: Path, name: str, worker: int, count: int, slots: int) -> rng.States | None:
    """The states of a worker before its fetch number ``count``; None when they were not written or are gone."""
    try:
        with states_path(folder, name, worker).open("rb") as file:
            file.seek((count % slots) * SLOT_BYTES)
            slot = file.read(SLOT_BYTES)
        written, length = _HEADER.unpack(slot[: _HEADER.size])
        return rng.decode(slot[_HEADER.size : _HEADER.size + length]) if written == count else None
    except (OSError, struct.error, msgspec.MsgspecError):
        return None


def read_failure(folder: Path, name: str, worker: int, count: int) -> WorkerFailure | None:
    try:
        return msgspec.json.decode(failure_path(folder, name, worker, count).read_bytes(), type=WorkerFailure)
    except (OSError, msgspec.MsgspecError, json.JSONDecodeError):
        return None
