"""Where cases live: a folder of folders, each complete or not there at all.

A case is a folder with ``case.json`` (facts), ``findings/STEP.json``, ``repro.py``, ``source/`` and ``private/``. A run
that is still going on, or that died, is a folder whose name starts with ``running-``. Writes go to a temporary name
beside the target and are renamed, so a run killed at any moment leaves a usable store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from firstfault.case.findings import STEPS, Finding
from firstfault.case.schema import SCHEMA_VERSION, Case
from firstfault.errors import UsageError

DEFAULT_FOLDER = ".firstfault"
RUNNING = "running-"
MAX_JSON_BYTES = 64 * 2**20  # of one file of a case; larger ones are damaged or hostile
_T = TypeVar("_T")


def cases_folder(given: str | None = None) -> Path:
    """The folder of cases: the one given, FIRSTFAULT_CASES, or ``.firstfault`` in the working folder."""
    return Path(given or os.environ.get("FIRSTFAULT_CASES") or DEFAULT_FOLDER)


def make_folder(folder: Path) -> None:
    """Make the folder of cases, with a ``.gitignore`` of its own.

    Raises:
        OSError: it can't be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")


def new_id() -> str:
    """A new case id: the time, then four random digits, so that ids sort by time and rarely share a part."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_json(path: Path, kind: type[_T]) -> _T:
    """Read one file of a case, checked against its schema.

    Raises:
        UsageError: the file is missing, too large, damaged, or written by a newer firstfault.
    """
    try:
        size = path.stat().st_size
        if size > MAX_JSON_BYTES:
            raise UsageError(
                f"{path} is damaged: {size:,} bytes, at most {MAX_JSON_BYTES:,} are read; restore it or delete the case"
            )
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror or error}; check the path") from None
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        version = _version(data)
        if version is not None and version > SCHEMA_VERSION:
            raise UsageError(_newer(path, version)) from None
        raise UsageError(f"{path} is damaged: {error}; restore it or delete the case") from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: {error}; restore it or delete the case") from None


def _version(data: bytes) -> int | None:
    try:
        version = msgspec.json.decode(data).get("schema_version")
    except (msgspec.MsgspecError, UnicodeDecodeError, AttributeError, RecursionError):
        return None
    return version if isinstance(version, int) else None


def _newer(path: Path, version: int) -> str:
    return (
        f"{path} was written by a newer firstfault (format {version}, this one reads {SCHEMA_VERSION}); "
        "upgrade with: pip install -U firstfault"
    )


class CaseFolder:
    """One case on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"CaseFolder({str(self.path)!r})"

    @property
    def id(self) -> str:
        return self.path.name

    def facts(self) -> Case:
        """The facts; raises UsageError when they are damaged or newer."""
        case = read_json(self.path / "case.json", Case)
        if case.schema_version > SCHEMA_VERSION:
            raise UsageError(_newer(self.path / "case.json", case.schema_version))
        return case

    def finding(self, step: str) -> Any:
        """What a step found, or None when it hasn't been done."""
        path = self.path / "findings" / f"{step}.json"
        return read_json(path, STEPS[step]) if path.exists() else None

    def findings(self) -> Mapping[str, Finding]:
        """All findings so far, in the order of the steps."""
        found = {step: self.finding(step) for step in STEPS}
        return {step: finding for step, finding in found.items() if finding is not None}

    def write_finding(self, step: str, finding: Finding) -> None:
        """Keep a finding beside the facts; an earlier one of the same step is replaced.

        Raises:
            UsageError: the case's folder can't be written.
        """
        try:
            (self.path / "findings").mkdir(exist_ok=True)
            write_atomically(
                self.path / "findings" / f"{step}.json", msgspec.json.format(msgspec.json.encode(finding))
            )
        except OSError as error:
            raise UsageError(
                f"{self.path} can't be written: {error.strerror or error}; check permissions and free space"
            ) from None

    @property
    def private(self) -> Path:
        return self.path / "private"


def list_cases(folder: Path) -> list[CaseFolder]:
    """The cases of a folder, oldest first. Damaged ones are listed too; unfinished runs aren't."""
    try:
        found = [
            each
            for each in folder.iterdir()
            if (each / "case.json").is_file() and not each.name.startswith(RUNNING)
        ]
    except OSError:
        return []
    return [CaseFolder(each) for each in sorted(found, key=lambda each: (_created(each), each.name))]


def _created(path: Path) -> float:
    """When a case was made: its id starts with the time, a case under another name goes by its file."""
    try:
        return time.mktime(time.strptime(path.name[:15], "%Y%m%d-%H%M%S"))
    except ValueError:
        return (path / "case.json").stat().st_mtime


def find_case(folder: Path, reference: str | None) -> CaseFolder:
    """The case that a command names: an id, any unique part of one, a path, or None for the newest.

    Raises:
        UsageError: there is none, or more than one.
    """
    if reference and (Path(reference) / "case.json").is_file():
        return CaseFolder(Path(reference))
    cases = list_cases(folder)
    if reference is None:
        if not cases:
            raise UsageError(
                f"there is no case in {folder}; record one with: firstfault run SCRIPT (or name a folder with --cases)"
            )
        return cases[-1]
    matching = [case for case in cases if reference in case.id]
    exact = [case for case in matching if case.id == reference]
    if len(exact or matching) == 1:
        return (exact or matching)[0]
    if matching:
        ids = ", ".join(case.id for case in matching[:5])
        raise UsageError(f"{reference!r} fits {len(matching)} cases ({ids}); give more of the id")
    raise UsageError(f"there is no case {reference!r} in {folder}; see: firstfault list")
