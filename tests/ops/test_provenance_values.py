"""Operators that change values on the way from the batch to the element at fault, and elements that no sample holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import default_collate

from firstfault.case.findings import Element
from firstfault.ops.provenance import Origins
from firstfault.ops.samples import Samples
from firstfault.ops.trace import Trace


def followed(
    values: Sequence[Any],
    use: Callable[[Any], torch.Tensor],
    at: tuple[int, ...],
    collate: Callable[[Any], Any] = default_collate,
) -> Element:
    """The origin of element ``at`` of what ``use`` makes of the batch; the samples' indices are 100, 101, …"""
    samples = Samples()
    with Trace() as trace:
        for position, value in enumerate(values):
            samples.fetched(position, 100 + position, value, trace.count)
        batch = collate(list(values))
        samples.handed_out(batch, [100 + n for n in range(len(values))], trace.count)
        result = use(batch)
    return Origins(trace.records, samples).element(result.detach(), at, result[at].item(), trace.count + 1)


LABELS = [torch.tensor(3), torch.tensor(0), torch.tensor(5)]


@pytest.mark.parametrize(
    ("use", "changed"),
    [
        (lambda y: y - 1, ("aten.sub: 5 -> 4",)),
        (lambda y: 2 * (y + 1), ("aten.add: 5 -> 6", "aten.mul: 6 -> 12")),
        (lambda y: y // 2, ("aten.floor_divide: 5 -> 2",)),
        (lambda y: torch.where(y == 5, 255, y), ("aten.where: 5 -> 255",)),
        (lambda y: y.masked_fill(y == 5, -1), ("aten.masked_fill: 5 -> -1",)),
        (lambda y: y.clamp(max=4), ("aten.clamp: 5 -> 4",)),
        (lambda y: y.float().div(2).long(), ("aten.div: 5.0 -> 2.5", "aten._to_copy: 2.5 -> 2")),
        (lambda y: torch.tensor([7, 8, 9, 10, 11, 12])[y], ("aten.index: 5 -> 12",)),
        (lambda y: torch.arange(6).mul(2).index_select(0, y), ("aten.index_select: 5 -> 10",)),
        (lambda y: torch.bucketize(y, torch.tensor([1, 4])), ("aten.bucketize: 5 -> 2",)),
        (lambda y: nn.functional.one_hot(y, 6).argmax(1), ("aten.scatter_: 5 -> 1", "aten.argmax: 1 -> 5")),
        (lambda y: y + torch.arange(3), ("aten.add: 5 -> 7",)),
        (lambda y: torch.sort(y).values.flip(0).roll(2), ()),
        (lambda y: y.repeat(2).topk(1).values.expand(3), ()),
    ],
)
def test_changes_are_named(use: Callable[[torch.Tensor], torch.Tensor], changed: tuple[str, ...]) -> None:
    """What changed a value on the way is named with the value before and after; the sample is still found."""
    found = followed(LABELS, use, (2,))
    assert (found.position, found.sample) == (2, 102)
    assert found.changed_by == changed


@pytest.mark.parametrize(
    ("use", "changed"),
    [
        (lambda y: y.sub_(1), ("aten.sub_: 5 -> 4",)),
        (lambda y: y.sub_(1).mul_(3), ("aten.sub_: 5 -> 4", "aten.mul_: 4 -> 12")),
        (lambda y: y.masked_fill_(y == 5, 99), ("aten.masked_fill_: 5 -> 99",)),
    ],
)
def test_changes_in_place_are_named(
    use: Callable[[torch.Tensor], torch.Tensor], changed: tuple[str, ...]
) -> None:
    """A batch that was changed in place shows the values that it had before."""
    found = followed(LABELS, use, (2,))
    assert (found.sample, found.changed_by, found.leaf) == (102, changed, "")


def test_assignments_are_named() -> None:
    """``target[mask] = value`` is an operator like any other."""

    def assign(y: torch.Tensor) -> torch.Tensor:
        y[y == 5] = 77
        return y

    found = followed(LABELS, assign, (2,))
    assert (found.sample, found.changed_by) == (102, ("aten.index_put_: 5 -> 77",))


def test_an_assignment_from_another_sample() -> None:
    """An element that was copied over from another row is that row's."""

    def assign(y: torch.Tensor) -> torch.Tensor:
        y[0] = y[2]
        return y

    assert followed(LABELS, assign, (0,)).sample == 102


@pytest.mark.parametrize(
    "collate", [default_collate, lambda items: {"text": torch.tensor([item["text"] for item in items])}]
)
def test_plain_numbers_of_a_sample(collate: Callable[[Any], Any]) -> None:
    """Python numbers that collate made a tensor of are found by their place and value."""
    values = [{"text": [1, 2, 3]}, {"text": [4, 5, 6]}]

    def use(batch: Any) -> torch.Tensor:
        ids = batch["text"]
        return torch.stack(ids, 1) if isinstance(ids, list) else ids

    found = followed(values, use, (1, 2), collate)
    assert (found.position, found.sample, found.path) == (1, 101, "['text'][2]")


def test_padded_plain_numbers_in_another_order() -> None:
    """A collate that sorts by length and pads is seen through where the number stands in one sample only."""

    def collate(items: list[dict[str, list[int]]]) -> torch.Tensor:
        texts = sorted((item["ids"] for item in items), key=len, reverse=True)
        return torch.tensor([text + [0] * (3 - len(text)) for text in texts])

    found = followed([{"ids": [7]}, {"ids": [8, 9, 61]}], lambda ids: ids, (0, 2), collate)
    assert (found.position, found.sample, found.path) == (1, 101, "['ids'][2]")


def test_samples_of_numpy() -> None:
    """A NumPy array is followed like a tensor over the same memory."""
    values = [(np.arange(6).reshape(2, 3) + 10 * n, n) for n in range(3)]
    found = followed(values, lambda batch: batch[0].flatten(1), (1, 4))
    assert (found.value, found.position, found.path, found.leaf) == (14, 1, "[0][1][1]", "[0]")


def test_a_read_only_array_is_followed() -> None:
    """A memory-mapped or otherwise protected array is followed too, without a warning."""
    array = np.arange(4)
    array.flags.writeable = False
    assert followed([array], lambda x: x, (0, 3)).path == "[3]"


def test_a_sample_drawn_twice() -> None:
    """The same memory in two rows is told apart by the row."""
    shared = torch.tensor([1, 2])
    assert followed([shared, shared], lambda x: x.flatten(), (3,)).position == 1


def test_positions_beyond_a_table() -> None:
    """An element that only the batch's extent reaches names the sample that is that long, and what made it."""
    values = [torch.ones(n, dtype=torch.int64) for n in (3, 6, 2)]

    def collate(items: list[torch.Tensor]) -> torch.Tensor:
        return nn.utils.rnn.pad_sequence(items, batch_first=True)

    found = followed(values, lambda ids: torch.arange(ids.shape[1]).expand_as(ids), (0, 5), collate)
    assert (found.position, found.sample, found.leaf) == (1, 101, None)
    assert found.changed_by == ("aten.arange: made 5",)
    assert followed(values, lambda ids: torch.arange(ids.shape[1]), (1,), collate).sample is None


def test_padding_names_its_row() -> None:
    """An element that collate filled in belongs to the row that it stands in."""
    values = [torch.ones(n, dtype=torch.int64) for n in (3, 6)]
    found = followed(
        values,
        lambda x: x,
        (0, 5),
        lambda items: nn.utils.rnn.pad_sequence(items, batch_first=True, padding_value=99),
    )
    assert (found.position, found.sample, found.changed_by) == (0, 100, ("aten.full: made 99",))


def test_counted_positions() -> None:
    """A running sum mixes elements of one sample: the sample is named, not the element."""
    values = [torch.tensor([1, 1, 0]), torch.tensor([1, 1, 1])]
    found = followed(values, lambda ids: torch.cumsum(ids.ne(0).int(), 1).long() + 1, (1, 2))
    assert (found.position, found.sample, found.within, found.leaf) == (1, 101, None, "")


class Net(nn.Module):
    def __init__(self, *middle: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Embedding(9, 4), nn.Flatten(), nn.Linear(8, 4), *middle, nn.ReLU(), nn.Linear(4, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).squeeze(1)


@pytest.mark.parametrize(
    "middle", [(), (nn.LayerNorm(4),), (nn.BatchNorm1d(4),), (nn.Dropout(0.1), nn.Softmax(1))]
)
def test_what_a_network_computed(middle: tuple[nn.Module, ...]) -> None:
    """A value that a network computed is its row's sample's, also where rows share statistics."""
    torch.manual_seed(0)
    values = [torch.tensor([n, n + 1]) for n in range(5)]
    found = followed(values, Net(*middle), (3,))
    assert (found.position, found.sample, found.within) == (3, 103, None)


def test_a_mean_over_the_batch_is_nobodys() -> None:
    """A value that all samples went into names none of them."""
    found = followed([torch.tensor(1.0), torch.tensor(2.0)], lambda x: x.mean().expand(3), (2,))
    assert (found.position, found.sample, found.leaf) == (None, None, "")


def test_a_constant_is_nobodys() -> None:
    """A value that no data went into names no sample."""
    found = followed(LABELS, lambda y: torch.full((3,), 9), (2,))
    assert (found.position, found.leaf, found.changed_by) == (None, None, ("aten.full: made 9",))


def test_noise_is_not_taken_for_movement() -> None:
    """Adding one to positions turns each value into its neighbour's; it is still named as a change."""
    found = followed([torch.arange(8)], lambda x: x + 1, (0, 3))
    assert (found.within, found.changed_by) == ((3,), ("aten.add: 3 -> 4",))
