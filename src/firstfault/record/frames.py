"""Frames of a traceback as data, and whose code each of them is."""

from __future__ import annotations

import functools
import itertools
import linecache
import os
import site
import sys
import sysconfig
import types
from pathlib import Path

from firstfault.case.schema import Frame, Owner

PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep
MAX_FRAMES = 200  # a runaway recursion has 1,000 and more; both ends tell the story
MAX_CODE = 200  # characters of a source line


def _library_folders() -> tuple[str, ...]:
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages()}
    folders.update(site.getsitepackages())
    return tuple(os.path.realpath(folder) + os.sep for folder in folders if folder)


_LIBRARIES = _library_folders()
_STANDARD_LIBRARY = tuple(
    os.path.realpath(path) + os.sep
    for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    if path
)


@functools.lru_cache(maxsize=4096)
def owner_of(filename: str) -> Owner:
    """Whose code a file is: the user's, torch's, another library's, Python's own, or firstfault's."""
    if filename.startswith("<"):
        return "python" if filename.startswith("<frozen") or filename == "<string>" else "user"
    path = os.path.realpath(filename)
    if path.startswith(PACKAGE) or filename.startswith(PACKAGE):
        return "firstfault"
    marker = f"{os.sep}site-packages{os.sep}"
    if path.startswith(_LIBRARIES) or marker in path or f"{os.sep}dist-packages{os.sep}" in path:
        inside = path.rsplit(marker, 1)[-1]
        for folder in _LIBRARIES:
            inside = inside.removeprefix(folder)
        return "torch" if inside.split(os.sep, 1)[0] == "torch" else "library"
    if path.startswith(_STANDARD_LIBRARY):
        return "python"
    if os.path.basename(filename) in ("firstfault", "firstfault.exe") and os.path.dirname(
        path
    ) == os.path.dirname(os.path.abspath(sys.executable)):
        return "firstfault"
    return "user"


def frame_of(code: types.CodeType, line: int) -> Frame:
    """One frame as data; the source line is read from the file when it can be."""
    text = linecache.getline(code.co_filename, line).strip()
    return Frame(
        file=code.co_filename,
        line=line,
        function=code.co_name,
        code=text[:MAX_CODE] or None,
        owner=owner_of(code.co_filename),
    )


def entries(traceback: types.TracebackType | None) -> list[types.TracebackType]:
    """The traceback's entries, outermost first."""
    found = []
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    return found


def frames_of(traceback: types.TracebackType | None) -> tuple[Frame, ...]:
    """The traceback as data, outermost first, without firstfault's own frames, the middle cut where it is too long."""
    found = [
        entry for entry in entries(traceback) if owner_of(entry.tb_frame.f_code.co_filename) != "firstfault"
    ]
    if len(found) > MAX_FRAMES:
        found = found[: MAX_FRAMES // 2] + found[-MAX_FRAMES // 2 :]
    return tuple(frame_of(entry.tb_frame.f_code, entry.tb_lineno) for entry in found)


def innermost_user_frame(frames: tuple[Frame, ...]) -> Frame | None:
    """Where the user's own code was when it failed; None when none of it is in the traceback."""
    for frame in reversed(frames):
        if frame.owner == "user" and not frame.file.startswith("<"):
            return frame
    for frame in reversed(frames):
        if frame.owner == "user":
            return frame
    return None


def without_own_frames(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The same traceback with firstfault's frames cut out, so that what a user reads is the script's own."""
    kept = [
        entry for entry in entries(traceback) if owner_of(entry.tb_frame.f_code.co_filename) != "firstfault"
    ]
    kept = [entry for entry in kept if not _launcher(entry.tb_frame.f_code)]
    for entry, following in itertools.pairwise(kept):
        entry.tb_next = following
    if kept:
        kept[-1].tb_next = None
    return kept[0] if kept else None


def _launcher(code: types.CodeType) -> bool:
    """runpy's frames, which stand below ours when firstfault was started by ``python -m firstfault``."""
    return code.co_filename == "<frozen runpy>"
