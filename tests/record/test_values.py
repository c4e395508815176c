"""Values of a batch, on disk and back, without pickle."""

from __future__ import annotations

import collections
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.errors import UsageError
from firstfault.record.values import describe_batch, load_values, save_values

LARGE = 10**9
Pair = collections.namedtuple("Pair", "image label")


@dataclasses.dataclass
class Sample:
    image: torch.Tensor
    name: str


def trusted(name: str) -> Any:
    return {f"{__name__}:Pair": Pair, f"{__name__}:Sample": Sample}.get(name)


tensors = st.builds(
    lambda shape, dtype, seed: (torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 9).to(
        dtype
    ),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from(
        [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64]
    ),
    st.integers(0, 99),
)
leaves = st.one_of(tensors, st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.floats())
batches = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=4), inner, max_size=3),
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=batches)
def test_any_batch_comes_back_with_the_same_digest(tmp_path: Path, batch: Any) -> None:
    """Structure, dtypes, shapes and bytes are what they were."""
    assert save_values(batch, tmp_path, "batch", LARGE)
    again = load_values(tmp_path, "batch")
    before, after = describe_batch(batch), describe_batch(again)
    assert before == after
    assert before["digest"] is not None


def test_strides_aliases_and_views_survive(tmp_path: Path) -> None:
    """Two views of one storage share it again; an expanded tensor keeps its stride of 0."""
    base = torch.arange(12.0).reshape(3, 4)
    save_values(
        {"rows": base[1:], "turned": base.t(), "wide": torch.ones(1).expand(5)}, tmp_path, "batch", LARGE
    )
    again = load_values(tmp_path, "batch")
    again["rows"][0, 0] = -1
    assert again["turned"][0, 1] == -1
    assert (again["turned"].stride(), again["wide"].stride()) == ((1, 4), (0,))


def test_a_slice_takes_no_neighbours_along(tmp_path: Path) -> None:
    """Only the bytes that the views need are written."""
    secret = torch.full((1_000_000,), 7.0)
    secret[:4] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    save_values([secret[:4]], tmp_path, "batch", LARGE)
    assert (tmp_path / "batch.safetensors").stat().st_size < 1_000
    assert load_values(tmp_path, "batch")[0].tolist() == [1, 2, 3, 4]


def test_custom_classes_come_back_where_they_are_trusted(tmp_path: Path) -> None:
    """Named tuples and dataclasses are built by the caller's lookup, and are plain values without one."""
    value = [Pair(torch.ones(2), 3), Sample(torch.zeros(1), "a")]
    save_values(value, tmp_path, "batch", LARGE)
    pair, sample = load_values(tmp_path, "batch", trusted)
    assert (type(pair), type(sample), sample.name) == (Pair, Sample, "a")
    plain_pair, plain_sample = load_values(tmp_path, "batch")
    assert type(plain_pair) is tuple
    assert plain_sample.name == "a"


def test_exotic_tensors_come_back(tmp_path: Path) -> None:
    """Sparse, packed, conjugated and NumPy values."""
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    value = {
        "sparse": torch.eye(3).to_sparse(),
        "conj": torch.tensor([1 + 2j]).conj(),
        "array": np.arange(3),
        "packed": packed,
    }
    assert save_values(value, tmp_path, "batch", LARGE)
    again = load_values(tmp_path, "batch")
    assert torch.equal(again["sparse"].to_dense(), torch.eye(3))
    assert again["conj"].tolist() == [1 - 2j]
    assert isinstance(again["array"], np.ndarray)
    assert again["packed"].batch_sizes.tolist() == [2, 2, 1]


def test_too_large_a_batch_is_not_kept(tmp_path: Path) -> None:
    """Nothing is written beyond the limit."""
    assert not save_values(torch.zeros(1000), tmp_path, "batch", max_bytes=100)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["cut", "garbage", "missing", "beyond"])
def test_damaged_files_are_one_clear_error(tmp_path: Path, damage: str) -> None:
    """A hostile or torn file never gets further than a UsageError."""
    save_values([torch.arange(4.0)], tmp_path, "batch", LARGE)
    structure, data = tmp_path / "batch.json", tmp_path / "batch.safetensors"
    if damage == "cut":
        data.write_bytes(data.read_bytes()[:20])
    elif damage == "garbage":
        structure.write_text("[1, 2")
    elif damage == "missing":
        data.unlink()
    else:
        kept = json.loads(structure.read_text())
        kept["views"][0]["shape"] = [10**9]
        structure.write_text(json.dumps(kept))
    with pytest.raises(UsageError, match="--batch ids"):
        load_values(tmp_path, "batch")


def test_an_in_place_change_shows_in_the_digest() -> None:
    """The digest is of the bytes, not of the object."""
    batch = [torch.zeros(3)]
    before = describe_batch(batch)["digest"]
    batch[0][1] = 1
    assert describe_batch(batch)["digest"] != before
