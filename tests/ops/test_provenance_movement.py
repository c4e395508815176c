"""Random chains of operators that only move elements: the traced origin is the true one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pad_sequence

from firstfault.ops.provenance import Origins
from firstfault.ops.samples import Samples
from firstfault.ops.trace import Trace

FILL = -7  # what operators fill with that have to make elements of their own

Move = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def _ints(g: torch.Generator, high: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randint(0, max(high, 1), shape, generator=g)


def _dim(x: torch.Tensor, g: torch.Generator) -> int:
    return int(_ints(g, x.ndim, ()))


def _slice(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    dim = _dim(x, g)
    start = int(_ints(g, x.size(dim), ()))
    return x.movedim(dim, 0)[start :: int(_ints(g, 3, ())) + 1]


def _gather(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    dim = _dim(x, g)
    return x.gather(dim, _ints(g, x.size(dim), tuple(x.shape)))


def _advanced(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    rows = _ints(g, x.size(0), (3, 2))
    return x[rows, _ints(g, x.size(1), (2,))] if x.ndim > 1 else x[rows]


def _buffer(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    buffer = torch.full((x.size(0) + 2, *x.shape[1:]), FILL, dtype=x.dtype)
    buffer[1:-1].copy_(x)
    buffer[0] = x[int(_ints(g, x.size(0), ()))]
    return buffer


def _scatter(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    rows = torch.randperm(x.size(0), generator=g)
    index = rows.reshape(-1, *[1] * (x.ndim - 1)).expand_as(x)
    return torch.full_like(x, FILL).scatter_(0, index, x)


def _put(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    y = x.clone()
    y[_ints(g, x.size(0), (2,))] = x[int(_ints(g, x.size(0), ()))]
    return y


def _where(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    return torch.where(_ints(g, 2, tuple(x.shape)).bool(), x, x.flip(0))


def _masked(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    mask = _ints(g, 2, tuple(x.shape)).bool()
    mask.view(-1)[0] = True
    return x[mask]


def _out(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    result = torch.empty(0, dtype=x.dtype)
    return torch.cat([x, x.flip(-1)], dim=_dim(x, g), out=result)


def _unfold(x: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    dim = _dim(x, g)
    return x.unfold(dim, min(2, x.size(dim)), 1)


MOVES: dict[str, Move] = {
    "reshape": lambda x, g: x.reshape(-1),
    "permute": lambda x, g: x.permute(*torch.randperm(x.ndim, generator=g).tolist()),
    "slice": _slice,
    "select": lambda x, g: x.select(_dim(x, g), 0).unsqueeze(0),
    "index_select": lambda x, g: x.index_select(0, _ints(g, x.size(0), (4,))),
    "gather": _gather,
    "take": lambda x, g: x.take(_ints(g, x.numel(), (3, 2))),
    "advanced": _advanced,
    "masked": _masked,
    "masked_select": lambda x, g: x.masked_select(x == x),
    "flip": lambda x, g: x.flip(_dim(x, g)),
    "roll": lambda x, g: x.roll(int(_ints(g, 5, ())), _dim(x, g)),
    "expand": lambda x, g: x.unsqueeze(0).expand(2, *x.shape),
    "repeat": lambda x, g: x.repeat(2, *[1] * (x.ndim - 1)),
    "repeat_interleave": lambda x, g: x.repeat_interleave(2, dim=0),
    "cat": lambda x, g: torch.cat([x, x.flip(0)], dim=_dim(x, g)),
    "stack": lambda x, g: torch.stack([x.flip(0), x], dim=_dim(x, g)),
    "chunk": lambda x, g: x.chunk(2, _dim(x, g))[0],
    "unbind": lambda x, g: x.unbind(0)[-1].unsqueeze(-1),
    "pad": lambda x, g: torch.nn.functional.pad(x, (1, 2), value=FILL),
    "clone": lambda x, g: x.clone(),
    "contiguous": lambda x, g: x.transpose(0, -1).contiguous(),
    "cast": lambda x, g: x.to(torch.int32).to(torch.int64),
    "float": lambda x, g: x.double().long(),
    "where": _where,
    "buffer": _buffer,
    "scatter": _scatter,
    "put": _put,
    "out": _out,
    "unfold": _unfold,
    "diagonal": lambda x, g: x.unsqueeze(-1).diagonal(0, -2, -1) if x.ndim else x,
    "squeeze": lambda x, g: x.unsqueeze(0).squeeze(0),
    "as_strided": lambda x, g: x.contiguous().as_strided((x.numel(),), (1,)),
    "unpad": lambda x, g: torch.nn.functional.pad(x, (0, -1)) if x.size(-1) > 1 else x,
}
MAX_ELEMENTS = 4_000  # what a chain may grow to


def _collate(kind: str, samples: list[torch.Tensor]) -> torch.Tensor:
    if kind == "pad":
        return pad_sequence(samples, batch_first=True, padding_value=FILL)
    if kind == "cat":
        return torch.cat(samples)
    shortest = min(len(sample) for sample in samples)
    return torch.stack([sample[:shortest] for sample in samples])


def _apply(chain: list[tuple[str, int]], x: torch.Tensor) -> torch.Tensor:
    for name, seed in chain:
        moved = MOVES[name](x, torch.Generator().manual_seed(seed))
        if 0 < moved.numel() <= MAX_ELEMENTS and 0 < moved.ndim <= 5:
            x = moved
    return x


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    kind=st.sampled_from(["stack", "pad", "cat"]),
    chain=st.lists(st.tuples(st.sampled_from(sorted(MOVES)), st.integers(0, 99)), max_size=6),
    seed=st.integers(0, 99),
)
def test_the_origin_is_true(lengths: list[int], kind: str, chain: list[tuple[str, int]], seed: int) -> None:
    """Each element of a random chain's result is followed back to its own sample and place, however alike values are."""
    g = torch.Generator().manual_seed(seed)
    values = [
        torch.randint(0, 3, (length, 2), generator=g) for length in lengths
    ]  # alike, so that values prove nothing
    starts = [2 * sum(lengths[:n]) for n in range(len(lengths))]
    names = [
        torch.arange(start, start + 2 * length).reshape(length, 2)
        for start, length in zip(starts, lengths, strict=True)
    ]
    truth = _apply(chain, _collate(kind, names))
    samples = Samples()
    with Trace() as trace:
        for position, value in enumerate(values):
            samples.fetched(position, 100 + position, value, trace.count)
        batch = _collate(kind, values)
        samples.handed_out(batch, [100 + n for n in range(len(values))], trace.count)
        result = _apply(chain, batch)
    origins = Origins(trace.records, samples)
    places = truth.nonzero() if truth.ndim else torch.zeros(1, 0)
    for place in places[torch.randperm(len(places), generator=g)[:12]].tolist():
        at = tuple(int(each) for each in place)
        name, found = int(truth[at]), origins.element(result, at, int(result[at]), trace.count + 1)
        if name == FILL:
            assert found.within is None or found.path is None or found.changed_by, (at, found)
            continue
        position = max(n for n, start in enumerate(starts) if start <= name)
        row, column = divmod(name - starts[position], 2)
        assert (found.position, found.sample, found.within) == (position, 100 + position, (row, column)), (
            at,
            name,
            found,
        )
        assert found.path == f"[{row}][{column}]"
        assert not found.changed_by


@pytest.mark.parametrize("name", sorted(MOVES))
def test_each_move_alone(name: str) -> None:
    """Every single way of moving elements is followed for every element."""
    values = torch.zeros(3, 4, dtype=torch.int64)
    truth = MOVES[name](torch.arange(12).reshape(3, 4), torch.Generator().manual_seed(0))
    samples = Samples()
    with Trace() as trace:
        samples.handed_out(values, None, trace.count)
        result = MOVES[name](values, torch.Generator().manual_seed(0))
    origins = Origins(trace.records, samples)
    for place in torch.ones(truth.shape).nonzero().tolist():
        at = tuple(place)
        found = origins.element(result, at, 0, trace.count + 1)
        if truth[at] != FILL:
            assert (found.leaf, found.within) == ("", tuple(divmod(int(truth[at]), 4))), (at, found)
