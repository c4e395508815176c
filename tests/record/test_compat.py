"""What recording relies on inside of torch is where it was; a failure here names what another version moved."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from firstfault.record import compat


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        return iter(range(4))


def test_the_iterators_have_the_methods_that_are_tapped() -> None:
    """Base: __init__, _reset, _next_index, __next__. With workers: __init__, _process_data."""
    base, single, many = compat.iterator_classes()
    assert all(
        callable(getattr(base, name))
        for name in ("__init__", "_reset", "_next_index", "__next__", "_next_data")
    )
    assert issubclass(single, base)
    assert issubclass(many, base)
    assert "_process_data" in vars(many)


def test_a_loaders_private_parts_answer() -> None:
    """Index sampler, automatic batching, kind of data set."""
    loader = DataLoader(torch.arange(4), batch_size=2)
    iterator = iter(loader)
    assert list(compat.index_sampler(loader)) == [[0, 1], [2, 3]]
    assert compat.batches_automatically(loader)
    assert compat.batches_automatically_of(iterator)
    assert (compat.is_iterable(loader), compat.is_iterable(DataLoader(Stream()))) == (False, True)
    assert compat.workers_of(iterator) == 0
    assert compat.fetcher(iterator, loader.dataset).fetch([1, 3]).tolist() == [1, 3]


def test_the_numbers_of_a_loader_with_workers() -> None:
    """What was sent, what is due, what is outstanding."""
    iterator = iter(DataLoader(torch.arange(8), batch_size=2, num_workers=1, prefetch_factor=2))
    assert (compat.sent(iterator), compat.received(iterator), compat.prefetch_factor(iterator)) == (2, 0, 2)
    assert list(compat.outstanding(iterator)) == [0, 1]
    assert compat.keeps_order(iterator)
    next(iterator)
    assert compat.received(iterator) == 1


def test_worker_info_can_be_set() -> None:
    """``get_worker_info()`` answers as in a worker."""
    iterator = iter(DataLoader(torch.arange(2)))
    module = compat.worker_module()
    try:
        compat.set_worker_info(iterator, 3)
        info = torch.utils.data.get_worker_info()
        assert info is not None
        assert info.id == 3
    finally:
        module._worker_info = None


def test_modes_can_be_switched_off() -> None:
    """No dispatch mode sees what is computed inside."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode(), compat.without_modes():
        torch.ones(2) + 1
    assert not seen
