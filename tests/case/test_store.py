"""Where cases live: complete or not there at all."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from firstfault.case import store
from firstfault.case.findings import Replay
from firstfault.case.schema import Case, Environment, Failure, Progress, Source
from firstfault.errors import UsageError


def write(folder: Path, id_: str) -> Path:
    case = Case(
        firstfault="0",
        id=id_,
        created=time.time(),
        failure=Failure(kind="raised", phase="setup"),
        progress=Progress(),
        environment=Environment(python="3", platform="x"),
        source=Source(),
    )
    path = folder / id_
    path.mkdir(parents=True)
    (path / "case.json").write_bytes(msgspec.json.encode(case))
    return path


def test_a_case_is_found_by_any_unique_part(tmp_path: Path) -> None:
    """An id, a part of one, a path, or nothing for the newest."""
    write(tmp_path, "20260101-000000-aaaa")
    newest = write(tmp_path, "20260102-000000-bbbb")
    assert store.find_case(tmp_path, None).path == newest
    assert store.find_case(tmp_path, "aa").id.endswith("aaaa")
    assert store.find_case(tmp_path, str(newest)).path == newest
    for reference in ("2026", "cccc"):
        with pytest.raises(UsageError):
            store.find_case(tmp_path, reference)


def test_runs_that_go_on_and_half_written_cases_are_not_cases(tmp_path: Path) -> None:
    """A folder without case.json, or of a run, is left alone."""
    (tmp_path / "20260101-000000-aaaa").mkdir()
    write(tmp_path, f"{store.RUNNING}20260101-000000-1")
    assert store.list_cases(tmp_path) == []


def test_findings_are_written_beside_the_facts(tmp_path: Path) -> None:
    """Facts stay as they are; a finding replaces an earlier one of its step."""
    folder = store.CaseFolder(write(tmp_path, "one"))
    facts = (folder.path / "case.json").read_bytes()
    folder.write_finding("replay", Replay(same=1))
    folder.write_finding("replay", Replay(same=2))
    assert folder.finding("replay").same == 2
    assert list(folder.findings()) == ["replay"]
    assert (folder.path / "case.json").read_bytes() == facts


def test_a_write_is_whole_or_not_at_all(tmp_path: Path) -> None:
    """A failing write leaves the old file and nothing else."""
    target = tmp_path / "file"
    store.write_atomically(target, b"old")
    with pytest.raises(TypeError):
        store.write_atomically(target, "not bytes")  # type: ignore[arg-type]
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_unknown_fields_of_a_later_writer_are_ignored(tmp_path: Path) -> None:
    """Within a format, fields may be added."""
    path = write(tmp_path, "one")
    data = msgspec.json.decode((path / "case.json").read_bytes())
    data["something_new"] = 1
    (path / "case.json").write_bytes(msgspec.json.encode(data))
    assert store.CaseFolder(path).facts().id == "one"
