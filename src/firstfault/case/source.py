"""The version of the user's own code that ran: the git commit, and copies of the modules that were loaded."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from firstfault.case.schema import Source, SourceFile

MAX_FILE_BYTES = 2 * 2**20  # of one source file; larger ones are data in disguise
MAX_TOTAL_BYTES = 10 * 2**20  # of all copies of one case
_GIT_SECONDS = 5.0  # git on a slow network drive must not hold up the report of a failure


def git_state(folder: str) -> tuple[str | None, bool | None]:
    """The commit checked out at a folder and whether the work tree differs from it; (None, None) without git."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None, None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return commit, None if changes is None else bool(changes)


def _git(folder: str, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", folder, *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def changed_since(source: Source) -> bool:
    """Whether one of the copied files is another one today, or gone."""
    for file in source.files:
        try:
            data = Path(source.root, file.path).read_bytes()
        except OSError:
            return True
        if hashlib.sha256(data).hexdigest() != file.digest:
            return True
    return False


def root_of(files: Iterable[str]) -> str:
    """The folder that holds all files; the first one's own folder when they have nothing in common."""
    paths = [os.path.abspath(path) for path in files]
    if not paths:
        return ""
    try:
        common = os.path.commonpath([os.path.dirname(path) for path in paths])
    except ValueError:
        common = os.path.dirname(paths[0])
    return common if len(Path(common).parts) > 1 else os.path.dirname(paths[0])


def copy_source(files: Mapping[str, bytes], folder: Path) -> tuple[str, tuple[SourceFile, ...]]:
    """Copy source files below ``folder``, keeping their places relative to one another.

    Returns the root that the paths are relative to, and what was copied. Files over the size limits are left out.
    """
    root = root_of(files)
    copied: list[SourceFile] = []
    total = 0
    for path, data in files.items():
        relative = os.path.relpath(os.path.abspath(path), root)
        if len(data) > MAX_FILE_BYTES or total + len(data) > MAX_TOTAL_BYTES or relative.startswith(".."):
            continue
        total += len(data)
        target = folder / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        copied.append(SourceFile(path=relative, digest=hashlib.sha256(data).hexdigest(), bytes=len(data)))
    return root, tuple(copied)
