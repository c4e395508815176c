"""The taps on DataLoader: which batch was issued, handed out, or failed while it was fetched.

The iterator classes of torch.utils.data are patched, not the loaders: types, lengths and samplers stay the script's.
A tap does its work in some microseconds and never lets an error of its own through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firstfault.record import compat
from firstfault.record.passes import Pass
from firstfault.record.session import Session
from firstfault.record.workers import WorkerHook

_ATTRIBUTE = "_firstfault_pass"
_SPARE_SLOTS = 2  # fetches that a worker may be ahead of what is outstanding


def tap(session: Session) -> Callable[[], None]:
    """Patch the iterator classes for this session; the returned function restores them."""
    base, _, many = compat.iterator_classes()
    originals = [
        (base, "__init__", base.__init__),
        (base, "_reset", base._reset),
        (base, "_next_index", base._next_index),
        (base, "__next__", base.__next__),
        (many, "__init__", many.__init__),
        (many, "_process_data", many._process_data),
    ]
    base.__init__ = _opening(session, base.__init__)
    base._reset = _resetting(session, base._reset)
    base._next_index = _issuing(base._next_index)
    base.__next__ = _handing_out(session, base.__next__)
    many.__init__ = _starting_workers(session, many.__init__)
    many._process_data = _processing(many._process_data)

    def untap() -> None:
        for owner, name, original in originals:
            setattr(owner, name, original)

    return untap


def pass_of(iterator: Any) -> Pass | None:
    """The pass that an iterator belongs to, if it is recorded."""
    return iterator.__dict__.get(_ATTRIBUTE)


def _open(session: Session, iterator: Any, loader: Any) -> Pass | None:
    if not session.on:
        return None
    with session.guarded("a loader could not be recorded"):
        opened = session.open_pass(loader, iterator, int(loader.num_workers))
        iterator.__dict__[_ATTRIBUTE] = opened
        return opened
    return None


def _opening(session: Session, original: Callable[..., None]) -> Callable[..., None]:
    def __init__(iterator: Any, loader: Any) -> None:
        if _ATTRIBUTE not in iterator.__dict__:
            _open(session, iterator, loader)
        original(iterator, loader)

    return __init__


def _resetting(session: Session, original: Callable[..., None]) -> Callable[..., None]:
    def _reset(iterator: Any, loader: Any, first_iter: bool = False) -> None:
        if not first_iter:
            before = pass_of(iterator)
            opened = _open(session, iterator, loader)
            if opened is not None and before is not None:
                opened.slots, opened.fetches_of = before.slots, before.fetches_of
                opened.states_name = before.states_name
        original(iterator, loader, first_iter)

    return _reset


def _issuing(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def _next_index(iterator: Any) -> Any:
        index = original(iterator)
        current = iterator.__dict__.get(_ATTRIBUTE)
        if current is not None:
            current.issued(iterator, index)
        return index

    return _next_index


def _processing(original: Callable[..., Any]) -> Callable[..., Any]:
    def _process_data(iterator: Any, data: Any, worker: int) -> Any:
        current = iterator.__dict__.get(_ATTRIBUTE)
        if current is not None:
            current.processed(worker)
        return original(iterator, data, worker)

    return _process_data


def _handing_out(session: Session, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __next__(iterator: Any) -> Any:
        current = iterator.__dict__.get(_ATTRIBUTE)
        if current is None or not session.on:
            return original(iterator)
        session.asked(current)
        try:
            batch = original(iterator)
        except StopIteration:
            session.ended(current)
            raise
        except BaseException as error:
            session.fetch_failed(current, iterator, error)
            raise
        session.handed_out(current, iterator, batch)
        return batch

    return __next__


def _starting_workers(session: Session, original: Callable[..., None]) -> Callable[..., None]:
    def __init__(iterator: Any, loader: Any) -> None:
        opened = _open(session, iterator, loader)
        if opened is None or session.folder is None:
            original(iterator, loader)
            return
        user = loader.worker_init_fn
        opened.slots = (loader.prefetch_factor or 2) * opened.workers + _SPARE_SLOTS
        compat.set_worker_init(
            loader, WorkerHook(user, str(session.folder), opened.states_name, opened.slots)
        )
        try:
            original(iterator, loader)
        finally:
            compat.set_worker_init(loader, user)

    return __init__
