"""One case as one zip: nothing private goes in, and nothing hostile comes out."""

from __future__ import annotations

import io
import json
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sample_cases
from firstfault.case import archive
from firstfault.case.archive import check_folder, check_safetensors, open_archive, open_case, write_archive
from firstfault.case.known_secrets import Known
from firstfault.errors import UsageError
from firstfault.report.export import export
from firstfault.report.view import view_of

CASE = msgspec.json.encode(sample_cases.index_error().case)


def folder_of(path: Path, **extra: bytes) -> Path:
    """A case's folder as the recorder leaves it, with findings, private files and copies of source files."""
    view = sample_cases.index_error()
    (path / "findings").mkdir(parents=True)
    (path / "private").mkdir()
    (path / "source").mkdir()
    (path / "case.json").write_bytes(CASE)
    for step, finding in view.findings.items():
        (path / "findings" / f"{step}.json").write_bytes(msgspec.json.encode(finding))
    (path / "findings" / "reproduction.plan").write_text("{}")
    (path / "repro.py").write_text(sample_cases.REPRO)
    (path / "private" / "batch.safetensors").write_bytes(
        tensors({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}, 4)
    )
    (path / "private" / "journal.jsonl").write_text("{}\n")
    (path / "source" / "train.py").write_text("print('private source')\n")
    for name, data in extra.items():
        (path / name).write_bytes(data)
    return path


def tensors(header: object, size: int, length: int | None = None) -> bytes:
    """A safetensors file with any header."""
    encoded = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(encoded) if length is None else length) + encoded + bytes(size)


def zipped(
    path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED
) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in entries:
            file.writestr(name, data)
    return path


# ---- there and back --------------------------------------------------------------------------------------------------


def test_an_exported_case_opens_and_shows_the_same(tmp_path: Path) -> None:
    """What may leave comes through: facts, findings, the program, the reports."""
    exported = export(folder_of(tmp_path / "case"), tmp_path / "out" / "case.zip", Known())
    opened = open_case(exported.path, tmp_path / "cases")
    assert opened.path == tmp_path / "cases" / "20261201-141931-a2a9"
    view = view_of(opened.path)
    assert view.case.failure.exception == sample_cases.index_error().case.failure.exception
    assert set(view.findings) == set(sample_cases.index_error().findings)
    assert view.repro == sample_cases.REPRO
    assert {each.name for each in opened.path.iterdir()} == {
        "case.json",
        "findings",
        "repro.py",
        "report.html",
        "report.md",
    }
    assert "Replaced:" in exported.review
    assert "Stays:" in exported.review


def test_neither_the_batch_nor_the_source_is_exported(tmp_path: Path) -> None:
    """private/, the copies of source files, plans and paths stay behind."""
    exported = export(folder_of(tmp_path / "case"), tmp_path / "case.zip", Known())
    with zipfile.ZipFile(exported.path) as file:
        names = file.namelist()
        told = b"".join(file.read(name) for name in names)
    assert not any("private" in name or "source" in name or "plan" in name for name in names)
    assert b"private source" not in told
    assert b"jane" not in told


def test_the_same_case_gives_the_same_zip(tmp_path: Path) -> None:
    """No time of day and no order of a file system gets into the file."""
    folder = folder_of(tmp_path / "case")
    one, other = (export(folder, tmp_path / name, Known()).path for name in ("1.zip", "2.zip"))
    assert one.read_bytes() == other.read_bytes()


def test_a_folder_zipped_by_hand_opens_too(tmp_path: Path) -> None:
    """With or without the folder in front, with private files; what no case has is left in the archive."""
    folder = folder_of(tmp_path / "case", **{"notes.txt": b"x"})
    for front in ("", "my case/"):
        path = zipped(
            tmp_path / f"{len(front)}.zip",
            *(
                (front + each.relative_to(folder).as_posix(), each.read_bytes())
                for each in folder.rglob("*")
                if each.is_file()
            ),
        )
        opened = open_case(path, tmp_path / f"cases{len(front)}")
        assert (opened.path / "private" / "batch.safetensors").is_file()
        assert (opened.path / "source" / "train.py").is_file()
        assert not (opened.path / "notes.txt").exists()
        assert not (opened.path / "findings" / "reproduction.plan").exists()


def test_opening_a_folder_checks_it_in_place(tmp_path: Path) -> None:
    """A sound folder is used where it is."""
    assert open_case(folder_of(tmp_path / "case"), tmp_path / "cases").path == tmp_path / "case"


def test_a_case_that_is_there_is_never_replaced(tmp_path: Path) -> None:
    """A stranger's case can't overwrite one's own."""
    path = zipped(tmp_path / "case.zip", ("case.json", CASE))
    first = open_case(path, tmp_path / "cases")
    (first.path / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="is there already"):
        open_case(path, tmp_path / "cases")
    assert (first.path / "mine.txt").read_text() == "keep"


def test_an_export_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """One line, and what to do."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        write_archive(tmp_path / "file" / "case.zip", sample_cases.index_error().case, {}, {})


# ---- hostile and damaged ---------------------------------------------------------------------------------------------


def entry(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def with_id(id_: str) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(sample_cases.index_error().case, id=id_))


def with_source(path: str) -> bytes:
    case = sample_cases.index_error().case
    files = (sample_cases.SourceFile(path=path, digest="0", bytes=1),)
    return msgspec.json.encode(
        msgspec.structs.replace(case, source=msgspec.structs.replace(case.source, files=files))
    )


HOSTILE: dict[str, tuple[str, tuple[tuple[str | zipfile.ZipInfo, bytes], ...]]] = {
    "leads out": ("leads out of the case", (("case.json", CASE), ("source/../../evil.py", b""))),
    "leads out at the top": ("leads out of the case", (("case.json", CASE), ("../evil.py", b""))),
    "absolute": ("absolute path", (("case.json", CASE), ("/etc/cron.d/evil", b""))),
    "drive": ("absolute path", (("case.json", CASE), ("C:/evil.py", b""))),
    "backslash": ("characters that no file", (("case.json", CASE), ("source\\..\\evil.py", b""))),
    "control characters": ("characters that no file", (("case.json", CASE), ("source/\x1b[2Jx.py", b""))),
    "dot": ("not a plain path", (("case.json", CASE), ("source/./x.py", b""))),
    "empty part": ("not a plain path", (("case.json", CASE), ("source//x.py", b""))),
    "blank at the end": ("not a plain path", (("case.json", CASE), ("source/x.py ", b""))),
    "long name": ("longer than", (("case.json", CASE), ("source/" + "x" * 300, b""))),
    "symbolic link": (
        "a link or a device",
        (("case.json", CASE), (entry("source/link", stat.S_IFLNK | 0o777), b"/etc/passwd")),
    ),
    "device": ("a link or a device", (("case.json", CASE), (entry("source/dev", stat.S_IFCHR | 0o666), b""))),
    "same name twice": ("twice", (("case.json", CASE), ("source/a.py", b"1"), ("source/A.py", b"2"))),
    "bomb": ("times its size", (("case.json", CASE), ("source/zeros.py", bytes(30 * 2**20)))),
    "no case": ("no case.json", (("readme.txt", b"hello"),)),
    "two cases": ("more than one case.json", (("a/case.json", CASE), ("b/case.json", CASE))),
    "damaged facts": ("damaged", (("case.json", CASE[:200]),)),
    "wrong facts": ("damaged", (("case.json", b"[1, 2, 3]"),)),
    "deep facts": ("damaged", (("case.json", b'{"failure":' + b"[" * 100_000),)),
    "newer": (
        "newer firstfault",
        (("case.json", CASE.replace(b'"schema_version":1', b'"schema_version":99')),),
    ),
    "damaged finding": ("damaged", (("case.json", CASE), ("findings/replay.json", b'{"same": "many"}'))),
    "id leads out": ("no plain name", (("case.json", with_id("../../evil")),)),
    "id of dots": ("no plain name", (("case.json", with_id("..")),)),
    "id with controls": ("no plain name", (("case.json", with_id("a\x1b[2J")),)),
    "source leads out": ("leads out of the case", (("case.json", with_source("../../evil.py")),)),
    "source is absolute": ("absolute path", (("case.json", with_source("/etc/passwd")),)),
    "script leads out": (
        "has to be repro.py",
        (("case.json", CASE), ("findings/shrink.json", b'{"repro": "../../evil.py"}')),
    ),
    "lying tensors": (
        "header tells of",
        (("case.json", CASE), ("private/batch.safetensors", tensors({}, 0, 2**60))),
    ),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_zip_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    """What is wrong is said in one harmless line, nothing is left behind, nothing is written elsewhere."""
    said, entries = HOSTILE[kind]
    (tmp_path / "here").mkdir()
    path = zipped(tmp_path / "case.zip", *entries)
    with pytest.raises(UsageError, match=said) as refused:
        open_case(path, tmp_path / "here" / "cases")
    assert str(refused.value).isprintable()
    assert [each for each in (tmp_path / "here").rglob("*") if each.is_file()] == []
    assert {each.name for each in tmp_path.iterdir()} == {"case.zip", "here"}


def test_a_zip_whose_list_lies_about_sizes_is_refused(tmp_path: Path) -> None:
    """What is unpacked is bounded by what the list says, whatever the file then holds."""
    path = zipped(tmp_path / "case.zip", ("case.json", CASE), ("source/a.py", b"x" * 5_000))
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = data.rfind(signature)
        data[at + offset : at + offset + 4] = struct.pack("<L", 10)
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"larger than|not a usable zip"):
        open_case(path, tmp_path / "cases")
    assert list((tmp_path / "cases").iterdir()) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[:-10], "not a zip"),
        (lambda data: b"", "not a zip"),
        (lambda data: b"%PDF-1.7" + bytes(1_000), "not a zip"),
        (lambda data: data[: len(data) // 2] + data[len(data) // 2 + 7 :], "not a usable zip|not a zip|damaged"),
        (lambda data: data[:-12] + struct.pack("<H", 60_000) + data[-10:], "lists 60,000 files"),
        (lambda data: data[:-10] + struct.pack("<L", 2**31) + data[-6:], "in 2,147,483,648 bytes"),
        (lambda data: data[:-22] + b"PK\x06\x07" + bytes(16) + data[-22:], "zip64"),
        (lambda data: data[:-12] + struct.pack("<H", 0xFFFF) + data[-10:], "zip64"),
    ],
)  # fmt: skip
def test_a_damaged_zip_is_refused(change: Callable[[bytes], bytes], said: str, tmp_path: Path) -> None:
    """The end of the file is looked at before the list that it points to is read."""
    path = zipped(tmp_path / "case.zip", ("case.json", CASE))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UsageError, match=said):
        open_case(path, tmp_path / "cases")


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    """No password is asked for."""
    path = zipped(tmp_path / "case.zip", ("case.json", CASE))
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        data[data.find(signature) + offset] |= 1
    path.write_bytes(data)
    with pytest.raises(UsageError, match="encrypted"):
        open_case(path, tmp_path / "cases")


def test_another_compression_is_refused(tmp_path: Path) -> None:
    """Only what zip itself writes is unpacked."""
    with pytest.raises(UsageError, match="method 12"):
        open_case(
            zipped(tmp_path / "case.zip", ("case.json", CASE), method=zipfile.ZIP_BZIP2), tmp_path / "cases"
        )


def test_too_many_files_and_too_large_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits hold before anything is read, and while it is read."""
    path = zipped(
        tmp_path / "case.zip", ("case.json", CASE), *((f"source/{number}.py", b"") for number in range(20))
    )
    monkeypatch.setattr(archive, "MAX_FILES", 10)
    with pytest.raises(UsageError, match="at most 10"):
        open_case(path, tmp_path / "cases")
    monkeypatch.setattr(archive, "MAX_FILES", 100)
    monkeypatch.setattr(archive, "MAX_BYTES", 1_000)
    with pytest.raises(UsageError, match="would unpack to"):
        open_case(path, tmp_path / "cases")
    monkeypatch.setattr(archive, "MAX_ARCHIVE_BYTES", 10)
    with pytest.raises(UsageError, match="at most 0 are opened"):
        open_case(path, tmp_path / "cases")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A missing path, a pipe."""
    with pytest.raises(UsageError, match="can't be opened"):
        open_case(tmp_path / "missing.zip", tmp_path / "cases")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        open_case(tmp_path / "pipe", tmp_path / "cases")


@pytest.mark.parametrize("where", ["source/link", "private/batch.safetensors", "findings", "case.json"])
def test_a_folder_with_links_is_refused(where: str, tmp_path: Path) -> None:
    """No link is followed, be it a file or a folder."""
    folder = folder_of(tmp_path / "case")
    target = folder / where
    if target.is_dir():
        target.rename(tmp_path / "elsewhere")
        target.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    else:
        target.unlink(missing_ok=True)
        target.symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="a link or a device"):
        check_folder(folder)


# ---- tensors ---------------------------------------------------------------------------------------------------------


def f32(shape: object, start: object, end: object) -> dict[str, object]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "unpack requires"),
        (b"\0\0", "unpack requires"),
        (tensors({}, 0, 2**63), "a header of"),
        (tensors({}, 0, 100), "a header of"),
        (tensors(b"{not json", 0), "header tells of"),
        (tensors(b"[" * 100_000, 0), "header tells of"),
        (tensors([], 0), "no table"),
        (tensors({"a": 1}, 0), "without a known dtype"),
        (tensors({"a": {"dtype": "F32"}}, 0), "without a known dtype"),
        (tensors({"a": {"dtype": "PICKLE", "shape": [1], "data_offsets": [0, 4]}}, 4), "without a known dtype"),
        (tensors({"a": f32([2], 0, 4)}, 4), "from 0 to 4"),
        (tensors({"a": f32([-1], 0, 4)}, 4), "an extent -1"),
        (tensors({"a": f32([1.0], 0, 4)}, 4), "an extent 1.0"),
        (tensors({"a": f32([2] * 100, 0, 4)}, 4), "100 dimensions"),
        (tensors({"a": f32([2**62, 2**62], 0, 4)}, 4), "from 0 to 4"),
        (tensors({"a": f32([1], 0, 4)}, 2), "from 0 to 4 of 2"),
        (tensors({"a": f32([1], 4, 0)}, 4), "from 4 to 0"),
        (tensors({"a": f32([1], -4, 0)}, 4), "from -4 to 0"),
        (tensors({"a": f32([1], 0, 4), "b": f32([1], 0, 4)}, 4), "a hole or an overlap at byte 4"),
        (tensors({"a": f32([1], 4, 8)}, 8), "a hole or an overlap at byte 0"),
        (tensors({"a": f32([1], 0, 4)}, 8), "4 bytes of tensors in 8"),
    ],
)  # fmt: skip
def test_a_header_that_lies_is_refused(data: bytes, said: str, tmp_path: Path) -> None:
    """Length, dtypes, shapes and offsets agree with the file, or nothing is made from it."""
    path = tmp_path / "batch.safetensors"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=said):
        check_safetensors(path)


def test_sound_tensors_are_accepted(tmp_path: Path) -> None:
    """What safetensors itself writes passes: empty, without dimensions, all dtypes, with metadata."""
    import torch
    from safetensors.torch import save_file

    kinds = (
        torch.float32,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.int64,
        torch.bool,
        torch.complex64,
        torch.uint16,
    )
    values = {str(kind): torch.zeros(2, 3, dtype=kind) for kind in kinds} | {
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(1.0),
    }
    save_file(values, tmp_path / "x.safetensors", metadata={"a": "b"})
    check_safetensors(tmp_path / "x.safetensors")


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_what_is_accepted_is_what_the_library_accepts(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No header passes that safetensors would refuse to open."""
    from safetensors import SafetensorError, safe_open

    entries = st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["F32", "U8", "BF16", "I64"]),
            "shape": st.lists(st.integers(0, 3), max_size=3),
            "data_offsets": st.lists(st.integers(0, 16), min_size=2, max_size=2),
        }
    )
    header = data.draw(st.dictionaries(st.sampled_from("abc"), entries, max_size=3))
    path = tmp_path_factory.getbasetemp() / "fuzz.safetensors"
    path.write_bytes(tensors(header, data.draw(st.integers(0, 16))))
    try:
        check_safetensors(path)
    except UsageError:
        return
    try:
        with safe_open(path, "numpy") as file:
            assert set(file.keys()) == set(header)
    except SafetensorError as error:
        pytest.fail(f"accepted here, refused there: {error}")


# ---- fuzzing ---------------------------------------------------------------------------------------------------------


def _good() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("case.json", CASE)
        file.writestr("findings/replay.json", b'{"same": 1}')
        file.writestr("private/batch.safetensors", tensors({"a": f32([1], 0, 4)}, 4))
    return packed.getvalue()


GOOD = _good()


def attempt(path: Path, into: Path) -> Path | str:
    """The opened case's folder, or what was said against it."""
    try:
        return open_archive(path, into).path
    except UsageError as refused:
        return str(refused)


@given(
    changes=st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=6)), max_size=4),
    cut=st.integers(0, len(GOOD)),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_is_a_clear_refusal_or_none(
    changes: list[tuple[int, bytes]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is done to the bytes, the answer is a case or one line; never a traceback, never a file elsewhere."""
    data = bytearray(GOOD)
    for at, new in changes:
        data[at : at + len(new)] = new
    base = tmp_path_factory.mktemp("fuzz")
    path = base / "case.zip"
    path.write_bytes(data if cut % 3 else data[:cut])
    opened = attempt(path, base / "cases")
    assert opened.parent == base / "cases" if isinstance(opened, Path) else opened.isprintable()
    inside = [each for each in base.rglob("*") if each.is_file() and each != path]
    assert all((base / "cases") in each.parents for each in inside)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@given(
    names=st.lists(st.text(st.sampled_from("ab./\\:\0 \x1bcasejson"), min_size=1, max_size=24), max_size=6)
)
@settings(max_examples=150, deadline=None)
def test_no_name_writes_outside_of_the_folder(
    names: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the members are called."""
    base = tmp_path_factory.mktemp("names")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("case.json", CASE)
        for name in dict.fromkeys(names):
            info = zipfile.ZipInfo("x")
            info.filename = info.orig_filename = name
            file.writestr(info, b"evil")
    (base / "case.zip").write_bytes(packed.getvalue())
    opened = attempt(base / "case.zip", base / "deep" / "cases")
    assert isinstance(opened, Path) or opened.isprintable()
    assert all(
        each.name == "case.zip" or (base / "deep" / "cases") in each.parents
        for each in base.rglob("*")
        if each.is_file()
    )


def test_the_checks_do_not_depend_on_the_checksum(tmp_path: Path) -> None:
    """A wrong checksum is a damaged zip, said in one line."""
    path = zipped(tmp_path / "case.zip", ("case.json", CASE), method=zipfile.ZIP_STORED)
    data = path.read_bytes()
    assert zlib.crc32(CASE) != 0
    path.write_bytes(data.replace(b"IndexError", b"IndexErrox", 1))
    with pytest.raises(UsageError, match="not a usable zip"):
        open_case(path, tmp_path / "cases")
