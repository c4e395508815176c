"""Feed a script's DataLoaders by a plan.

The script's own loaders stay what they are; only their iterators are replaced. Batches come out of the user's data set,
transforms and collate_fn, under the random states that the recorded run had at that batch's border. A batch that a
worker fetched is fetched in this process as that worker would have: with its random states, its ``get_worker_info()``,
its ``worker_init_fn`` and one thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch.utils.data import DataLoader

from firstfault.case.schema import Case
from firstfault.record import compat, rng
from firstfault.record.loaders import pass_of
from firstfault.record.passes import Pass
from firstfault.record.session import Session
from firstfault.trial import events
from firstfault.trial.plan import Feed, ScriptPlan

_BaseIterator, _, _ = compat.iterator_classes()


class RecordedStates(msgspec.Struct, frozen=True):
    """``private/rng.json``: the random states at the failing batch's border."""

    main: rng.States | None = None
    worker: rng.States | None = None
    devices: dict[str, bytes] | None = None


def recorded_states(case: Path) -> RecordedStates:
    """The case's random states; empty ones where they weren't recorded."""
    try:
        return msgspec.json.decode((case / "private" / "rng.json").read_bytes(), type=RecordedStates)
    except (OSError, msgspec.MsgspecError):
        return RecordedStates()


class Feeder:
    """What the plan hands out, and how far it has come."""

    def __init__(self, plan: ScriptPlan, case: Case, session: Session, refuse: Callable[[str], None]) -> None:
        self.plan = plan
        self.refuse = refuse
        self.case = case
        self.session = session
        self.states = recorded_states(Path(plan.case))
        self.feeds: dict[tuple[int, int], Feed] = {(feed.loader, feed.pass_): feed for feed in plan.feeds}
        self.left = sum(len(feed.batches) for feed in plan.feeds)
        self.initialised: set[int] = set()

    def recorded_batch(self, number: int | None, pass_: Pass) -> bool:
        """Whether this is the batch whose random states were recorded."""
        progress = self.case.progress
        return number is not None and (pass_.loader.number, pass_.number, number) == (
            progress.loader,
            progress.pass_,
            progress.batch,
        )


def feed(feeder: Feeder) -> Callable[[], None]:
    """Replace ``DataLoader.__iter__`` for this process; the returned function restores it."""
    original = DataLoader.__iter__

    def __iter__(loader: Any) -> Any:
        if feeder.plan.others == "everything" and not feeder.feeds:
            return original(loader)
        return FedIterator(loader, feeder)

    DataLoader.__iter__ = __iter__  # type: ignore[method-assign]

    def restore() -> None:
        DataLoader.__iter__ = original  # type: ignore[method-assign]

    return restore


class FedIterator(_BaseIterator):  # type: ignore[misc, valid-type]
    """One pass by plan: the fed batches of this loader and pass, or what the plan says for all others."""

    def __init__(self, loader: Any, feeder: Feeder) -> None:
        super().__init__(loader)
        self.feeder = feeder
        current = pass_of(self)
        assert current is not None, "a fed loader is always recorded"
        current.workers = 0  # fetched here, whatever the loader says
        self.fed = feeder.feeds.get((current.loader.number, current.number))
        self.given = 0
        if self.fed is not None and feeder.plan.batch == "ids":
            self._check_length(current)
        self.loader_workers = int(loader.num_workers)
        self.worker_init = loader.worker_init_fn
        self.worker_batches = (
            feeder.session.loader_states[current.loader.number].facts.workers if loader.num_workers else 0
        )

    def _check_length(self, current: Pass) -> None:
        """Sample ids mean something only as long as the data set is the one that was recorded."""
        loaders = {each.loader: each.length for each in self.feeder.case.loaders}
        before, now = loaders.get(current.loader.number), current.loader.facts.length
        if before is not None and now is not None and before != now:
            self.feeder.refuse(
                f"the data set of loader {current.loader.number} has {now:,} samples now and had {before:,}, so sample ids no longer "
                "mean the same; restore the data, or feed the kept batch with --batch values"
            )

    def _next_data(self) -> Any:
        current = pass_of(self)
        assert current is not None
        indices, number = self._next_planned(current)
        if self.feeder.plan.batch == "values" and self.feeder.recorded_batch(number, current):
            current.issued_last = indices
            return _kept_batch(Path(self.feeder.plan.case))
        with self._as_recorded(current, number):
            data = self._fetcher().fetch(indices)
        self._after_fetch(current, number)
        return data

    def _next_planned(self, current: Pass) -> tuple[Any, int | None]:
        """The next batch's indices and its recorded number; StopIteration when the plan has no more for this pass."""
        if self.fed is None:
            if self.feeder.plan.others == "nothing" or (self.feeder.plan.others == "first" and self.given):
                raise StopIteration
            indices = next(self._sampler_iter)
            number: int | None = None
        else:
            if self.given >= len(self.fed.batches):
                raise StopIteration
            indices = list(self.fed.batches[self.given])
            number = self.fed.numbers[self.given] if self.given < len(self.fed.numbers) else None
            indices = indices if compat.batches_automatically_of(self) else indices[0]
            self.feeder.left -= 1
            if number is not None:
                current.batch_number = number - 1
        self.given += 1
        current.issued(self, indices)
        return indices, number

    def _fetcher(self) -> Any:
        dataset = (
            _Listened(self._dataset) if events.listening() and not self._is_iterable() else self._dataset
        )
        return compat.fetcher(self, dataset)

    def _is_iterable(self) -> bool:
        return bool(compat.iterates(self))

    @contextlib.contextmanager
    def _as_recorded(self, current: Pass, number: int | None) -> Iterator[None]:
        """Random states, and the worker's surroundings, as they were when this batch was fetched."""
        feeder = self.feeder
        recorded = feeder.plan.restore_rng and feeder.recorded_batch(number, current)
        generators = rng.generators_of(self._dataset)
        if not self.loader_workers:
            if recorded and feeder.states.main is not None:
                rng.put_back(feeder.states.main, generators)
            yield
            return
        before = rng.take()
        batch = feeder.case.batch
        worker = batch.worker if recorded and batch is not None and batch.worker is not None else 0
        with _worker_surroundings(self, worker):
            self._initialise_worker(worker)
            if recorded and feeder.states.worker is not None:
                rng.put_back(feeder.states.worker, generators)
            yield
        rng.put_back(before)

    def _initialise_worker(self, worker: int) -> None:
        if self.worker_init is not None and worker not in self.feeder.initialised:
            self.feeder.initialised.add(worker)
            self.worker_init(worker)

    def _after_fetch(self, current: Pass, number: int | None) -> None:
        """With workers, the main process's states were recorded when the batch came out: put them back then."""
        feeder = self.feeder
        if not feeder.plan.restore_rng or not feeder.recorded_batch(number, current):
            return
        if self.loader_workers and feeder.states.main is not None:
            rng.put_back(feeder.states.main)
        if feeder.states.devices:
            rng.put_back(rng.States(devices=feeder.states.devices))


class _Listened:
    """The data set, telling the trial's instruments of each sample that comes out of it."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.position = 0

    def __getitem__(self, index: Any) -> Any:
        value = self.dataset[index]
        events.sample_fetched(self.position, index, value)
        self.position += 1
        return value


@contextlib.contextmanager
def _worker_surroundings(iterator: Any, worker: int) -> Iterator[None]:
    """What a worker process has around it (torch/utils/data/_utils/worker.py): its info, its seed, one thread."""
    module = compat.worker_module()
    threads = torch.get_num_threads()
    before = module._worker_info
    compat.set_worker_info(iterator, worker)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        module._worker_info = before


def _kept_batch(case: Path) -> Any:
    from firstfault.record import values

    return values.load_values(case / "private", "batch", trusted_classes=_class_in_loaded_modules)


def _class_in_loaded_modules(name: str) -> Any:
    """A class by its qualified name, among the modules that the script itself has imported."""
    import sys

    module, _, qualified = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in qualified.split("."):
        found = getattr(found, part, None)
    return found


def fed_batch(case: Case, indices: Sequence[Any] | None = None) -> Feed:
    """The failing batch as a feed, or a part of it."""
    progress, batch = case.progress, case.batch
    assert progress.loader is not None
    assert progress.pass_ is not None
    assert batch is not None
    chosen = tuple(indices if indices is not None else batch.indices or (None,) * (batch.size or 1))
    return Feed(loader=progress.loader, pass_=progress.pass_, batches=(chosen,), numbers=(progress.batch,))
