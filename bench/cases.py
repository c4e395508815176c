"""The proof over a folder of failing scripts: ``python bench/cases.py FOLDER``.

Each script is copied into a scratch folder and taken the whole road: recorded, investigated, its ``repro.py`` run alone,
its fixed twin (in ``FOLDER/../fixed`` or ``FOLDER/fixed``) recorded without leaving a case. The ``# expect:`` line in a
script's head is read only to compare. A value that is missing never counts as right.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COLUMNS = ("fault", "phase", "position", "step", "indices", "operator", "samples", "repro", "fixed", "time")
FIRSTFAULT = (sys.executable, "-m", "firstfault")


@dataclass
class Result:
    """One script: for each column whether it is right (None where nothing is expected), and what was got and wanted."""

    name: str
    right: dict[str, bool | None] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def note(self, column: str, got: Any, wanted: Any, right: bool | None = None) -> None:
        self.right[column] = (got is not None and got == wanted) if right is None else right
        if not self.right[column]:
            self.wrong.append(f"{column}: got {got!r}, wanted {wanted!r}")


def expectation(script: Path) -> dict[str, Any]:
    found = re.search(r"^# expect: (\{.*\})$", script.read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{script} has no '# expect:' line")
    return json.loads(found[1])


def run(
    command: list[str] | tuple[str, ...], folder: Path, seconds: float
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(command, 124, str(late.stdout or ""), str(late.stderr or ""))


def examine(script: Path, twin: Path | None, limit: float) -> Result:
    wanted = expectation(script)
    result = Result(script.stem)
    folder = Path(tempfile.mkdtemp(prefix="firstfault-case-"))
    try:
        shutil.copy(script, folder / script.name)
        started = time.monotonic()
        run((*FIRSTFAULT, "run", script.name), folder, limit)
        run((*FIRSTFAULT, "investigate", "--json"), folder, limit)
        result.seconds = time.monotonic() - started
        shown = run((*FIRSTFAULT, "show", "--json"), folder, limit)
        case = json.loads(shown.stdout) if shown.returncode == 0 else {}
        _compare(result, case, wanted)
        _repro(result, case, folder)
        result.note("time", round(result.seconds), f"at most {limit:g}", result.seconds <= limit)
        _twin(result, twin, limit)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def _compare(result: Result, case: dict[str, Any], wanted: dict[str, Any]) -> None:
    failure, progress = case.get("failure", {}), case.get("progress", {})
    batch, findings = case.get("batch") or {}, case.get("findings", {})
    result.note("fault", failure.get("fault"), wanted["fault"])
    if "phase" in wanted:
        result.note("phase", failure.get("phase"), wanted["phase"])
    if wanted.get("swallowed"):
        result.note("phase", (failure.get("phase"), failure.get("swallowed")), (wanted.get("phase"), True))
    named = [name for name in ("loader", "pass", "batch") if name in wanted]
    if named:
        result.note(
            "position", {name: progress.get(name) for name in named}, {name: wanted[name] for name in named}
        )
    if "last_completed_step" in wanted:
        result.note("step", progress.get("last_completed_step"), wanted["last_completed_step"])
    else:
        result.right["step"] = None
    if "indices" in wanted:
        result.note(
            "indices",
            batch.get("indices"),
            wanted["indices"],
            case != {} and batch.get("indices") == wanted["indices"],
        )
    else:
        result.right["indices"] = None
    if "operator" in wanted:
        result.note("operator", findings.get("locate", {}).get("operator"), wanted["operator"])
    else:
        result.right["operator"] = None
    if "sufficient" in wanted:
        shrunk = findings.get("shrink", {})
        got = (shrunk.get("sufficient"), shrunk.get("samples"))
        result.note(
            "samples",
            got,
            (wanted["sufficient"], wanted.get("culprits")),
            _samples_right(shrunk, batch, wanted),
        )
    else:
        result.right["samples"] = None


def _samples_right(shrunk: dict[str, Any], batch: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether the samples suffice in the way that is expected: just the culprits, or the culprits with company."""
    samples, culprits = shrunk.get("samples"), wanted.get("culprits", [])
    kind = wanted["sufficient"]
    if samples is None or shrunk.get("sufficient") != kind:
        return False
    checks: dict[str, Callable[[], bool]] = {
        "culprits": lambda: sorted(samples, key=str) == sorted(culprits, key=str),
        "culprits_with_others": lambda: (
            set(culprits) <= set(samples) and len(samples) < len(batch.get("indices") or samples * 2) + 1
        ),
        "any": lambda: len(samples) == 1,
        "batch_size": lambda: len(samples) == batch.get("size"),
        "history": lambda: True,
    }
    return checks.get(kind, lambda: False)()


def _repro(result: Result, case: dict[str, Any], folder: Path) -> None:
    path = Path(case.get("folder") or "") / (
        case.get("findings", {}).get("shrink", {}).get("repro") or "repro.py"
    )
    path = folder / path
    if not path.is_file():
        result.note("repro", None, "a script that exits 1")
        return
    with tempfile.TemporaryDirectory() as elsewhere:
        alone = shutil.copy(path, Path(elsewhere) / "repro.py")
        ended = run((sys.executable, "-I", str(alone)), Path(elsewhere), 60)
    result.note("repro", f"exit {ended.returncode}", "exit 1")


def _twin(result: Result, twin: Path | None, limit: float) -> None:
    if twin is None:
        result.right["fixed"] = None
        return
    folder = Path(tempfile.mkdtemp(prefix="firstfault-twin-"))
    try:
        shutil.copy(twin, folder / twin.name)
        ended = run((*FIRSTFAULT, "run", twin.name), folder, limit)
        left = sorted(path.name for path in (folder / ".firstfault").glob("*/case.json"))
        result.note("fixed", (ended.returncode, left), (0, []))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def twin_of(script: Path) -> Path | None:
    for folder in (script.parent.parent / "fixed", script.parent / "fixed"):
        if (folder / script.name).is_file():
            return folder / script.name
    return None


def show(results: list[Result]) -> None:
    width = max([len(result.name) for result in results], default=6) + 2
    print(f"{'script':<{width}}" + "".join(f"{column:>10}" for column in COLUMNS) + f"{'seconds':>9}")
    mark = {True: "ok", False: "WRONG", None: "-"}
    for result in results:
        print(
            f"{result.name:<{width}}"
            + "".join(f"{mark[result.right.get(column)]:>10}" for column in COLUMNS)
            + f"{result.seconds:>9.1f}"
        )
    print()
    for result in results:
        for line in result.wrong:
            print(f"{result.name}: {line}")
    print()
    for column in COLUMNS:
        judged = [result.right[column] for result in results if result.right.get(column) is not None]
        print(f"{column:<10} {sum(map(bool, judged))} of {len(judged)} right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", help="names of scripts (a part is enough)")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one script")
    parser.add_argument("--json", type=Path, help="write the results there as well")
    options = parser.parse_args()
    folder = options.folder / "scripts" if (options.folder / "scripts").is_dir() else options.folder
    os.environ.pop("FIRSTFAULT_CASES", None)
    results = []
    for script in sorted(folder.glob("*.py")):
        if options.only and not any(part in script.stem for part in options.only):
            continue
        results.append(examine(script, twin_of(script), options.limit))
        print(
            f"{script.stem}: {'right' if not results[-1].wrong else '; '.join(results[-1].wrong)[:140]}",
            file=sys.stderr,
        )
    show(results)
    if options.json:
        options.json.write_text(
            json.dumps(
                [{"name": r.name, "right": r.right, "wrong": r.wrong, "seconds": r.seconds} for r in results],
                indent=1,
            )
        )


if __name__ == "__main__":
    main()
