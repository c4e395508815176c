"""Input that can't be used: one clear line, exit code 2, nothing lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TRAIN = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    COUNT = 12
    labels = torch.zeros(COUNT, dtype=torch.long)
    labels[5] = 3
    for x, y in DataLoader(TensorDataset(torch.randn(COUNT, 2), labels), batch_size=4):
        torch.nn.functional.cross_entropy(x, y)
"""


@pytest.fixture
def case(workplace: Any, recorded: Callable[[str], dict[str, Any]]) -> Path:
    recorded(TRAIN)
    (folder,) = workplace.cases
    return folder


def assert_refused(done: Any, *words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert all(word in done.stderr for word in words), done.stderr
    assert not done.stdout


def test_an_unknown_case_and_an_ambiguous_part_of_an_id(workplace: Any, case: Path) -> None:
    """The line names what was asked for, and the cases that it could be."""
    assert_refused(workplace.firstfault("show", "nowhere"), "nowhere")
    shutil.copytree(case, case.with_name("20261201-000000-ffff"))
    assert_refused(workplace.firstfault("show", "20261201"), "20261201-000000-ffff") if case.name.startswith(
        "20261201"
    ) else None
    assert_refused(workplace.firstfault("show", "-"), "fits 2 cases")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "damaged"),
        (b'{"id": 3', "damaged"),
        (b"\xff\xfe\x00", "damaged"),
        (b'{"schema_version": 99}', "newer"),
        (b"[]", "damaged"),
    ],
)
def test_a_damaged_or_newer_case_file(workplace: Any, case: Path, content: bytes, word: str) -> None:
    """Every way to open the case says what is wrong with which file."""
    (case / "case.json").write_bytes(content)
    assert_refused(workplace.firstfault("show"), "case.json", word)
    assert workplace.firstfault("list").returncode == 0


def test_a_script_that_changed_for_the_worse(workplace: Any, case: Path) -> None:
    """A syntax error, a failing import, a missing script, a data set of another length: each is said, once."""
    script = workplace.folder / "train.py"
    source = script.read_text()
    for changed, words in (
        ("def (", ["syntax error", "line 1"]),
        ("import no_such_module", ["no_such_module"]),
        (source.replace("COUNT = 12", "COUNT = 10"), ["10 samples now and had 12"]),
    ):
        script.write_text(changed)
        assert_refused(workplace.firstfault("replay"), *words)
    script.unlink()
    assert_refused(workplace.firstfault("replay"), "is gone")
    assert json.loads((case / "case.json").read_text())["id"] == case.name


def test_the_recorded_source_still_replays(workplace: Any, case: Path) -> None:
    """What the script was at the run is kept in the case."""
    (workplace.folder / "train.py").unlink()
    done = workplace.firstfault("replay", "--source", "recorded", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcome"] == "same"
