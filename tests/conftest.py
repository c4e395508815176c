"""Shared by all tests: running firstfault as a user does, in a scratch folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SECONDS = 120


class Workplace:
    """A folder in which scripts are written and firstfault is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, source: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    def firstfault(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.python("-m", "firstfault", *arguments, **environment)

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {**os.environ, "COLUMNS": "80", **environment}
        variables.pop("FIRSTFAULT_CASES", None)
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env=variables,
        )

    @property
    def cases(self) -> list[Path]:
        return sorted(path.parent for path in (self.folder / ".firstfault").glob("*/case.json"))

    def case(self) -> dict[str, Any]:
        """The facts of the only case."""
        (folder,) = self.cases
        return json.loads((folder / "case.json").read_text())


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


@pytest.fixture
def recorded(workplace: Workplace) -> Callable[[str], dict[str, Any]]:
    """Run a failing script under firstfault and give the facts of its case."""

    def record(source: str) -> dict[str, Any]:
        workplace.write("train.py", source)
        done = workplace.firstfault("run", "train.py")
        assert workplace.cases, f"no case was written; the run said:\n{done.stderr}"
        return workplace.case()

    return record
