"""One case as one ``.zip``: written without what is private, and opened without trusting whoever sent it.

Opening looks before it reads. What an archive or a folder says of itself (how many files, how large, which paths) is
checked against limits first, then what is read is bounded again, since it may say one thing and hold another. Nothing is
unpickled, nothing is run, nothing is written outside of the folder that is asked for, and no link is followed.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import msgspec

from firstfault.case.clean import clean
from firstfault.case.findings import STEPS, Finding, Shrink
from firstfault.case.schema import Case
from firstfault.case.store import MAX_JSON_BYTES, CaseFolder, read_json, write_atomically
from firstfault.errors import UsageError

MAX_ARCHIVE_BYTES = 512 * 2**20  # of the zip; the largest batch that is kept has 256 MiB
MAX_BYTES = 1024 * 2**20  # of all files together, unpacked
MAX_FILES = 4_000  # of one case: copies of source files are the most of them
MAX_RATIO = 200  # unpacked to packed; deflate makes text some 10 times smaller, zeros 1,000 times
MAX_DIRECTORY_BYTES = 4 * 2**20  # of the zip's list of files, which is read whole
MAX_NAME = 240  # characters of a path inside
MAX_HEADER_BYTES = 16 * 2**20  # of a safetensors file; the format's own limit is 100 MB
_RATIO_FROM = 2**20  # bytes; a smaller file does no harm however well it is packed
_CHUNK = 2**20
_MAX_DIMENSIONS = 64  # torch's operators take no more (ATen/WrapDimUtilsMulti.h, dim_bitset_size)
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip can hold; the same case gives the same bytes
# Sizes in bytes of one element, or of one group of elements, by the names of the safetensors format.
_DTYPES = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "U16": 16, "I16": 16, "F16": 16,
    "BF16": 16, "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64, "C64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_archive(
    target: Path, case: Case, findings: Mapping[str, Finding], texts: Mapping[str, str]
) -> Path:
    """Write a case that may leave (:mod:`firstfault.case.public`) as one zip; ``texts`` are further files by name.

    Raises:
        UsageError: the file can't be written.
    """
    files = {"case.json": msgspec.json.format(msgspec.json.encode(case))}
    files |= {
        f"findings/{step}.json": msgspec.json.format(msgspec.json.encode(each))
        for step, each in findings.items()
    }
    files |= {name: text.encode("utf-8", "replace") for name, text in texts.items()}
    packed = tempfile.SpooledTemporaryFile(max_size=8 * 2**20)  # noqa: SIM115  (closed below)
    with packed, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[arg-type]
        for name, data in files.items():
            if (wrong := _wrong_name(name)) is not None:
                raise ValueError(f"{name!r} {wrong}")
            entry = zipfile.ZipInfo(f"{case.id}/{name}", date_time=_FIXED_TIME)
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
        archive.close()
        packed.seek(0)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, packed.read())
        except OSError as error:
            raise UsageError(
                f"{target} can't be written: {error.strerror or error}; choose another place"
            ) from None
    return target


# ---- opening ---------------------------------------------------------------------------------------------------------


def open_case(path: Path, into: Path) -> CaseFolder:
    """A case from anybody, as a checked folder: a zip is unpacked below ``into``, a folder is checked where it is.

    Raises:
        UsageError: it is damaged, too large, from a newer firstfault, or not harmless. Nothing of it is left behind.
    """
    if path.is_dir():
        check_folder(path)
        return CaseFolder(path)
    return open_archive(path, into)


def open_archive(path: Path, into: Path) -> CaseFolder:
    """Unpack a zip below ``into`` under the case's own id, checked; one that is there already is never replaced.

    Raises:
        UsageError: as for :func:`open_case`.
    """
    with _opened(path) as file:
        _check_end(path, file)
        try:
            with zipfile.ZipFile(file) as archive:
                members = _members(path, archive)
                return _unpacked(path, archive, members, into)
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            RuntimeError,
            EOFError,
            struct.error,
            ValueError,
            zlib.error,
        ) as error:
            raise UsageError(
                f"{_shown(path)} is not a usable zip: {clean(str(error)) or type(error).__name__}; ask for it again"
            ) from None


def check_folder(folder: Path) -> None:
    """Check a case's folder before anything in it is used: no links, no special files, sizes, schema, tensor headers.

    Raises:
        UsageError: as for :func:`open_case`.
    """
    files, total = 0, 0
    for entry in _walk(folder, folder):
        files, total = files + 1, total + entry.stat(follow_symlinks=False).st_size
        if files > MAX_FILES:
            raise UsageError(
                f"{_shown(folder)} has more than {MAX_FILES:,} files; it is no case, or more than one"
            )
        if total > MAX_BYTES:
            raise UsageError(
                f"{_shown(folder)} holds more than {MAX_BYTES // 2**20} MiB; it is no case, or a hostile one"
            )
    opened = CaseFolder(folder)
    check_case(folder, opened.facts())
    findings = opened.findings()
    shrink = findings.get("shrink")
    if isinstance(shrink, Shrink) and shrink.repro is not None and shrink.repro != "repro.py":
        raise UsageError(
            f"{_shown(folder)} names {clean(shrink.repro)!r} as its script, which has to be repro.py; don't use it"
        )
    for tensors in sorted((folder / "private").glob("*.safetensors")):
        check_safetensors(tensors)


def check_case(path: Path, case: Case) -> None:
    """What the schema can't say of the facts: an id that is a plain name, paths of source files that stay inside.

    Raises:
        UsageError: the case names places outside of itself.
    """
    if not _ID.fullmatch(case.id) or ".." in case.id:
        raise UsageError(
            f"{_shown(path)} has the id {clean(case.id[:80])!r}, which is no plain name; don't use it"
        )
    for each in case.source.files:
        if (wrong := _wrong_name(each.path)) is not None:
            raise UsageError(
                f"{_shown(path)} lists a source file {clean(each.path[:80])!r} that {wrong}; don't use it"
            )


def check_safetensors(path: Path) -> None:
    """Check a safetensors file's header against the file before anything is made from it.

    The format: 8 bytes with the header's length, a JSON header, then the bytes of all tensors, with no hole and no
    overlap (safetensors README, "Format").

    Raises:
        UsageError: the header lies about the file.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(size - 8, MAX_HEADER_BYTES):
                raise UsageError(_lying(path, f"a header of {length:,} bytes in a file of {size:,}"))
            header = msgspec.json.decode(file.read(length))
    except OSError as error:
        raise UsageError(f"{_shown(path)} can't be read: {error.strerror or error}") from None
    except (struct.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(_lying(path, clean(str(error)))) from None
    if (wrong := _wrong_header(header, size - 8 - length)) is not None:
        raise UsageError(_lying(path, wrong))


# ---- a zip -----------------------------------------------------------------------------------------------------------


def _opened(path: Path) -> BinaryIO:
    """The archive's file: a plain one, not too large."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise UsageError(
                f"{_shown(path)} is neither a file nor a folder; name a case's folder or its .zip"
            )
        if size > MAX_ARCHIVE_BYTES:
            raise UsageError(
                f"{_shown(path)} has {size // 2**20:,} MiB, at most {MAX_ARCHIVE_BYTES // 2**20} are opened; unpack it yourself if you trust it"
            )
        return path.open("rb")
    except OSError as error:
        raise UsageError(
            f"{_shown(path)} can't be opened: {error.strerror or error}; check the path"
        ) from None


def _check_end(path: Path, file: BinaryIO) -> None:
    """The zip's last record, before :mod:`zipfile` reads the whole list of files that it points to.

    Layout: PKWARE APPNOTE 4.3.16. Zip64 (4.3.14) is refused: nothing of its size is opened.
    """
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(max(size - 65_557, 0))  # 22 bytes of the record, up to 65,535 of a comment
    tail = file.read()
    file.seek(0)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < 22:
        raise UsageError(f"{_shown(path)} is not a zip, or its end is missing; ask for it again")
    count, directory = (
        struct.unpack("<H", tail[at + 10 : at + 12])[0],
        struct.unpack("<L", tail[at + 12 : at + 16])[0],
    )
    if b"PK\x06\x07" in tail[max(at - 20, 0) : at] or count == 0xFFFF or directory == 0xFFFFFFFF:
        raise UsageError(f"{_shown(path)} is a zip64, for sizes that no case has; it isn't opened")
    if count > MAX_FILES or directory > MAX_DIRECTORY_BYTES:
        raise UsageError(
            f"{_shown(path)} lists {count:,} files in {directory:,} bytes, at most {MAX_FILES:,} are opened; it is no case, or a hostile one"
        )


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The files of the case by their path inside, all of them checked; what a case doesn't have is left out."""
    entries = archive.infolist()
    if len(entries) > MAX_FILES:
        raise UsageError(
            f"{_shown(path)} has {len(entries):,} files, at most {MAX_FILES:,} are opened; it is no case, or a hostile one"
        )
    if (total := sum(entry.file_size for entry in entries)) > MAX_BYTES:
        raise UsageError(
            f"{_shown(path)} would unpack to {total // 2**20:,} MiB, at most {MAX_BYTES // 2**20} are allowed; it is hostile, or no case"
        )
    found: dict[str, zipfile.ZipInfo] = {}
    folded: set[str] = set()  # some file systems don't tell capitals apart
    for entry in entries:
        _check_entry(path, entry)
        if entry.is_dir():
            continue
        if entry.filename.casefold() in folded:
            raise UsageError(f"{_shown(path)} has {clean(entry.filename)!r} twice; don't use it")
        folded.add(entry.filename.casefold())
        found[entry.filename] = entry
    top = _top(path, found)
    return {
        name.removeprefix(top): entry
        for name, entry in found.items()
        if name.startswith(top) and _belongs(name.removeprefix(top))
    }


def _check_entry(path: Path, entry: zipfile.ZipInfo) -> None:
    """One file of the list: its name, its kind, how it is packed."""
    shown = clean(entry.filename[:80])
    if entry.orig_filename != entry.filename:  # zipfile cuts names at a NUL
        raise UsageError(f"{_shown(path)} has a file name with a NUL, {shown!r}; don't use it")
    if (wrong := _wrong_name(entry.filename.rstrip("/"))) is not None:
        raise UsageError(f"{_shown(path)} has a file {shown!r} that {wrong}; don't use it")
    mode = entry.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UsageError(f"{_shown(path)} has {shown!r}, which is a link or a device; don't use it")
    if entry.flag_bits & 0x1:
        raise UsageError(f"{_shown(path)} is encrypted; ask for it without a password")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UsageError(
            f"{_shown(path)} is packed in a way that isn't read (method {entry.compress_type}); pack it again with zip"
        )
    if entry.file_size > _RATIO_FROM and entry.file_size > MAX_RATIO * max(entry.compress_size, 1):
        raise UsageError(
            f"{_shown(path)} has {shown!r}, which unpacks to {entry.file_size // max(entry.compress_size, 1):,} times its size; it is hostile"
        )


def _wrong_name(name: str) -> str | None:
    """What is wrong with a path inside of a case; None when it stays inside on every system."""
    parts = name.split("/")
    if not name or len(name) > MAX_NAME:
        return f"is longer than {MAX_NAME} characters" if name else "has no name"
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return "is an absolute path"
    if "\\" in name or any(character < " " or character == "\x7f" for character in name):
        return "has characters that no file of a case has"
    if ".." in parts:
        return "leads out of the case"
    if "" in parts or "." in parts or any(part.endswith((" ", ".")) for part in parts):
        return "is not a plain path"
    return None


def _top(path: Path, names: Mapping[str, object]) -> str:
    """The folder inside the zip that holds the case: none, or one; whoever zips a folder gets it in front."""
    if "case.json" in names:
        return ""
    tops = {
        name.removesuffix("case.json")
        for name in names
        if PurePosixPath(name).name == "case.json" and name.count("/") == 1
    }
    if len(tops) != 1:
        raise UsageError(
            f"{_shown(path)} has {'no' if not tops else 'more than one'} case.json; it is not a case"
        )
    return tops.pop()


def _belongs(name: str) -> bool:
    """Whether a case has such a file. Others are left in the archive."""
    parts = PurePosixPath(name).parts
    if len(parts) == 1:
        return name in ("case.json", "repro.py", "report.md", "report.html")
    if parts[0] == "findings":
        return len(parts) == 2 and name.removeprefix("findings/").removesuffix(".json") in STEPS
    if parts[0] == "private":
        return len(parts) == 2 and parts[1].endswith((".json", ".jsonl", ".safetensors"))
    return parts[0] == "source"


def _unpacked(
    path: Path, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], into: Path
) -> CaseFolder:
    """Unpack beside the target, check, and only then give it its name."""
    try:
        into.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="opening-", dir=into))
    except OSError as error:
        raise UsageError(
            f"{_shown(into)} can't be written: {error.strerror or error}; name another folder with --cases"
        ) from None
    try:
        left = MAX_BYTES
        for name, entry in members.items():
            left -= _extract(path, archive, entry, scratch / name, left)
        check_folder(scratch)
        target = into / read_json(scratch / "case.json", Case).id
        if target.exists():
            raise UsageError(
                f"{_shown(target)} is there already; delete it first, or name another folder with --cases"
            )
        scratch.rename(target)
    except OSError as error:
        raise UsageError(
            f"{_shown(into)} can't be written: {error.strerror or error}; check permissions and free space"
        ) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return CaseFolder(target)


def _extract(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path, left: int) -> int:
    """Write one file, no more bytes than the list said and than are left. Returns how many."""
    target.parent.mkdir(parents=True, exist_ok=True)
    most = min(entry.file_size, left, MAX_JSON_BYTES if target.suffix == ".json" else left)
    written = 0
    with archive.open(entry) as packed, target.open("xb") as file:
        while chunk := packed.read(_CHUNK):
            written += len(chunk)
            if written > most:
                raise UsageError(
                    f"{_shown(path)} has {clean(entry.filename)!r}, which is larger than allowed or than it says; it is hostile"
                )
            file.write(chunk)
    return written


# ---- a folder --------------------------------------------------------------------------------------------------------


def _walk(folder: Path, top: Path) -> Iterator[os.DirEntry[str]]:
    """Every plain file below a folder; a link or a special file is refused."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_symlink() or not (
                    entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
                ):
                    raise UsageError(
                        f"{_shown(top)} has {clean(entry.name)!r}, which is a link or a device; don't use it"
                    )
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(Path(entry.path), top)
                else:
                    yield entry
    except OSError as error:
        raise UsageError(f"{_shown(folder)} can't be read: {error.strerror or error}") from None


def _wrong_header(header: object, size: int) -> str | None:
    """What is wrong with a safetensors header, for ``size`` bytes of data; None when it is sound."""
    if not isinstance(header, dict):
        return "a header that is no table"
    spans = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            dtype, shape, (start, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
            bits = _DTYPES[dtype]
            if len(shape) > _MAX_DIMENSIONS:
                return f"{len(shape)} dimensions in {clean(name[:40])!r}"
            for extent in shape:
                if type(extent) is not int or extent < 0:
                    return f"an extent {extent!r} in {clean(name[:40])!r}"
                bits *= extent
            sound = (
                type(start) is int
                and type(end) is int
                and 0 <= start <= end <= size
                and bits == 8 * (end - start)
            )
        except (KeyError, TypeError, ValueError):
            return f"an entry {clean(name[:40])!r} without a known dtype, a shape and offsets"
        if not sound:
            return (
                f"{clean(name[:40])!r} as {clean(str(dtype))}{shape} from {start} to {end} of {size:,} bytes"
            )
        spans.append((start, end))
    at = 0
    for start, end in sorted(spans):
        if start != at:
            return f"a hole or an overlap at byte {at:,}"
        at = end
    return None if at == size else f"{at:,} bytes of tensors in {size:,}"


def _lying(path: Path, wrong: str) -> str:
    return f"{_shown(path)} is damaged or hostile: its header tells of {wrong}; don't use it"


def _shown(path: Path) -> str:
    return clean(str(path))


__all__ = ["check_case", "check_folder", "check_safetensors", "open_archive", "open_case", "write_archive"]
