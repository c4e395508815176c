"""What makes two trials the same one."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from firstfault.case.schema import Case, Environment, Failure, Progress, Source, SourceFile
from firstfault.trial.identity import identity
from firstfault.trial.plan import Plan, ScriptPlan, SourcePlan, Variant


@pytest.fixture
def plan(tmp_path: Path) -> ScriptPlan:
    """A plan for a case of a script and a module beside it."""
    (tmp_path / "train.py").write_text("import model")
    (tmp_path / "model.py").write_text("layers = 1")
    source = Source(
        script=str(tmp_path / "train.py"),
        root=str(tmp_path),
        files=(
            SourceFile(path="train.py", digest="", bytes=12),
            SourceFile(path="model.py", digest="", bytes=10),
        ),
    )
    case = Case(
        firstfault="0",
        id="case",
        created=0.0,
        failure=Failure(kind="raised", phase="forward"),
        progress=Progress(),
        environment=Environment(python="3.11", platform="Linux"),
        source=source,
    )
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "case.json").write_bytes(msgspec.json.encode(case))
    return ScriptPlan(case=str(tmp_path / "case"))


@pytest.mark.parametrize("name", ["train.py", "model.py"])
def test_a_changed_source_is_another_trial(plan: ScriptPlan, tmp_path: Path, name: str) -> None:
    """After the user's fix the same plan is run again, whichever file was changed, or deleted."""
    before = identity(plan)
    assert before is not None
    assert identity(plan) == before
    (tmp_path / name).write_text("fixed, and longer than before")
    changed = identity(plan)
    assert changed != before
    os.unlink(tmp_path / name)
    assert identity(plan) not in (before, changed)


def test_a_recorded_source_does_not_change(plan: ScriptPlan, tmp_path: Path) -> None:
    """A plan for the recorded copy is another trial than one for today's files, and these don't matter to it."""
    recorded = msgspec.structs.replace(plan, source=str(tmp_path / "copy"))
    before = identity(recorded)
    assert before != identity(plan)
    (tmp_path / "train.py").write_text("fixed, and longer than before")
    assert identity(recorded) == before


def test_a_case_that_cannot_be_read_has_no_identity(tmp_path: Path) -> None:
    """Nothing is remembered of a trial when it can't be told what it ran."""
    assert identity(ScriptPlan(case=str(tmp_path))) is None


def test_plans_are_told_apart_by_every_field() -> None:
    """Text, repeat, variant and limits: each makes another trial; the order of a variant's settings doesn't."""
    plan = SourcePlan(text="x")
    settings = [Variant(name="v", settings=settings) for settings in ({"a": 1, "b": 2}, {"b": 2, "a": 1})]
    others: list[Plan] = [
        plan,
        SourcePlan(text="y"),
        *(
            msgspec.structs.replace(plan, **change)
            for change in ({"repeat": 1}, {"seconds": 1.0}, {"variant": settings[0]})
        ),
    ]
    assert len({identity(each) for each in others}) == len(others)
    one, other = (identity(msgspec.structs.replace(plan, variant=variant)) for variant in settings)
    assert one == other
