"""Every private attribute of torch that recording and trials rely on, each behind one function.

Versions seen: torch 2.13.0 (CPU). ``tests/record/test_compat.py`` fails with the name of the attribute when another
version moved it. Files are relative to torch's folder.
"""

from __future__ import annotations

from typing import Any


def iterator_classes() -> tuple[Any, Any, Any]:
    """The base, in-process and multi-process iterators of DataLoader (utils/data/dataloader.py)."""
    from torch.utils.data import dataloader

    return (
        dataloader._BaseDataLoaderIter,
        dataloader._SingleProcessDataLoaderIter,
        dataloader._MultiProcessingDataLoaderIter,
    )


def fetcher_classes() -> tuple[Any, Any]:
    """The fetchers for map-style and iterable data sets (utils/data/_utils/fetch.py)."""
    from torch.utils.data._utils import fetch

    return fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher


def workers_of(iterator: Any) -> int:
    """How many worker processes feed this iterator."""
    return iterator._num_workers


def keeps_order(iterator: Any) -> bool:
    """False for ``in_order=False``: batches come as workers finish them."""
    return getattr(iterator, "_in_order", True)


def sent(iterator: Any) -> int:
    """The number that the next batch sent to a worker will have."""
    return iterator._send_idx


def received(iterator: Any) -> int:
    """The number of the next batch that is due, when order is kept."""
    return iterator._rcvd_idx


def outstanding(iterator: Any) -> dict[int, Any]:
    """Batches sent to workers and not handed out yet, by number."""
    return iterator._task_info


def prefetch_factor(iterator: Any) -> int:
    return iterator._prefetch_factor or 2


def set_worker_init(loader: Any, function: Any) -> None:
    """Set the function that workers run first; _MultiProcessingDataLoaderIter.__init__ reads it off the loader."""
    loader.__dict__["worker_init_fn"] = function


def index_sampler(loader: Any) -> Any:
    """The sampler of index lists (batch_sampler), or of single indices when there is no automatic batching."""
    return loader._index_sampler


def batches_automatically(loader: Any) -> bool:
    return loader._auto_collation


def batches_automatically_of(iterator: Any) -> bool:
    return iterator._auto_collation


def iterates(iterator: Any) -> bool:
    """Whether the iterator's data set is iterable-style."""
    return iterator._dataset_kind == _iterable_kind()


def fetcher(iterator: Any, dataset: Any) -> Any:
    """A fetcher like the iterator's own, over another data set."""
    from torch.utils.data.dataloader import _DatasetKind

    return _DatasetKind.create_fetcher(
        iterator._dataset_kind, dataset, iterator._auto_collation, iterator._collate_fn, iterator._drop_last
    )


def set_worker_info(iterator: Any, worker: int) -> None:
    """Make ``get_worker_info()`` answer as in a worker of this iterator."""
    module = worker_module()
    seed = iterator._base_seed + worker
    module._worker_info = module.WorkerInfo(
        id=worker, num_workers=iterator._num_workers, seed=seed, dataset=iterator._dataset
    )


def is_iterable(loader: Any) -> bool:
    """Whether the loader's data set is iterable-style."""
    return loader._dataset_kind == _iterable_kind()


def _iterable_kind() -> int:
    from torch.utils.data.dataloader import _DatasetKind

    return _DatasetKind.Iterable


def worker_module() -> Any:
    """utils/data/_utils/worker.py, whose ``_worker_info`` is what ``get_worker_info()`` returns."""
    from torch.utils.data._utils import worker

    return worker


def without_modes() -> Any:
    """A context in which no dispatch mode sees what is computed (torch/utils/_python_dispatch.py)."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()
