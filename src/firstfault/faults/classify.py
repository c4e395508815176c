"""From a text, or from a case with its findings, to a fault class with its evidence.

A text's failures are taken in the order in which they stand: the first one counts. Classes that follow from others (a
time-out, a dead worker, a status that an earlier kernel left behind) give way to any other class in the same text.
Evidence of a case beats its text. Where nothing fits, the answer is ``other``: a wrong class is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from firstfault.case.device_asserts import parse_device_asserts
from firstfault.case.findings import Explain, Finding, Locate
from firstfault.case.schema import Case, ExceptionInfo
from firstfault.faults.catalogue import FAULTS, OTHER, Fault
from firstfault.trial.signature import nonfinite_kind, unwrap_worker

MAX_TEXT = 2_000_000  # characters of a log that are read, from its end
_MAX_QUOTE = 160
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|[\x00-\x08\x0b-\x1f\x7f]")
_EXCEPTION_LINE = re.compile(
    r"^(?:\[?\w*rank\w*[ \d]*\]?:?\s*|\d+: |E +|> ?)*(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Failed|Errors|Mode|Hit))(?:: |$)", re.MULTILINE
)
_FETCHED_SAMPLE = re.compile(r"\[self\.dataset\[idx\]|self\.dataset\[possibly_batched_index\]|self\.dataset\.__getitems__|next\(self\.dataset_iter\)|in __getitem__\b")
_COLLATED = re.compile(r"return self\.collate_fn\(data\)|in (?:default_)?collate(?:_\w+)?\b")
_WARNING = re.compile(r"\b\w*Warning\b|\bWARN(?:ING)?\b")


def classify_text(text: str) -> Explain:
    """The class of the first failure in a text that a person pasted, with what follows it as further classes."""
    text = _ANSI.sub("", text[-MAX_TEXT:].replace("\r\n", "\n").replace("\r", "\n"))
    hits = sorted(_hits(text), key=lambda hit: hit[0])
    first = next((hit for hit in hits if not hit[1].late), None) or (hits[0] if hits else None)
    by_frames = _data_failure(text, first[0] if first else None)
    if by_frames is not None:
        return explained(FAULTS[by_frames[0]], (by_frames[1],), _backend(text), tuple(hit[1].name for hit in hits))
    if first is None:
        return explained(OTHER, (), _backend(text))
    later = tuple(dict.fromkeys(hit[1].name for hit in hits if hit[1] is not first[1]))
    return explained(first[1], (_line_around(text, first[0]),), _backend(text), later)


def _hits(text: str) -> list[tuple[int, Fault]]:
    """Where each class's rules first match, leaving warnings out."""
    found = []
    for fault in FAULTS.values():
        starts = []
        for rule in fault.rules:
            match = rule.search(text, text)
            if match is not None and not _is_warning(text, match.start()):
                starts.append(match.start())
        if starts:
            found.append((min(starts), fault))
    return found


def _is_warning(text: str, position: int) -> bool:
    line = _line_around(text, position)
    return bool(_WARNING.search(line)) and not re.search(r"error", line, re.IGNORECASE)


def _line_around(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return text[start : end if end >= 0 else len(text)].strip()[:_MAX_QUOTE]


def _data_failure(text: str, first: int | None) -> tuple[str, str] | None:
    """Whether the first failing traceback passed through a data set's own code, or through collation."""
    error = next((match for match in _EXCEPTION_LINE.finditer(text) if first is None or match.start() >= text.rfind("\n", 0, first)), None)
    end = error.start() if error is not None else len(text)
    block = text[max(text.rfind("Traceback (most recent call last)", 0, end), 0) : end]
    if error is None or "Traceback" not in block:
        return None
    fetched = list(_FETCHED_SAMPLE.finditer(block))
    collated = list(_COLLATED.finditer(block))
    line = _line_around(text, error.start())
    if collated and (not fetched or collated[-1].start() > fetched[-1].start()):
        return "collate", line
    return ("dataset_error", line) if fetched else None


def _backend(text: str) -> str | None:
    for pattern, backend in ((r"\bHIP\b|hip[A-Z]\w+|\brocm\b|RCCL|MIOpen|rocblas", "rocm"), (r"\bMPS\b|\bmps:\d", "mps"), (r"\bXPU\b|xpu:\d|SYCL|UR_RESULT", "xpu"), (r"CUDA|cuda:\d|torch\.cuda|NCCL|cudnn|cublas", "cuda")):
        if re.search(pattern, text):
            return backend
    return None


def explained(fault: Fault, evidence: tuple[str, ...], backend: str | None, also: tuple[str, ...] = ()) -> Explain:
    """A class as a finding. ``also`` are further classes met in the text; the catalogue's own follow them."""
    others = tuple(dict.fromkeys(name for name in (*also, *fault.also) if name != fault.name))
    first_check = fault.first_check
    if backend == "rocm":
        first_check = first_check.replace("torch.cuda.get_arch_list()", "torch.cuda.get_arch_list() (gfx names on ROCm)")
    return Explain(
        summary=f"{fault.name}: {fault.title}",
        fault=fault.name,
        family=fault.family,
        first_check=first_check,
        avoid=fault.avoid,
        backend=backend,
        evidence=evidence,
        also=others,
    )


# ---- cases -----------------------------------------------------------------------------------------------------------


def classify_case(case: Case, found: Mapping[str, Finding] | None = None) -> Explain:
    """The class of a case. What a step found beats what the message says."""
    failure = case.failure
    located = (found or {}).get("locate")
    backend = case.environment.backend if case.environment.devices or case.environment.backend == "cpu" else "cpu"
    if isinstance(located, Locate) and located.violations and failure.fetch is None:
        return _by_contract(located, backend)
    if failure.fetch is not None:
        name = {"getitem": "dataset_error", "collate": "collate", "init": "dataset_error"}[failure.fetch.stage]
        return explained(FAULTS[name], (_fetch_evidence(case),), backend, _text_classes(case))
    if failure.kind == "nonfinite":
        return explained(FAULTS["nonfinite"], (_said(failure.exception),), backend)
    if failure.device_asserts:
        text = "\n".join(each.text for each in failure.device_asserts)
        finding = classify_text(text)
        if finding.fault != "other":
            return explained(FAULTS[finding.fault], tuple(each.text[:_MAX_QUOTE] for each in failure.device_asserts[:3]), backend)
    if failure.exception is None:
        return explained(OTHER, (), backend)
    return _by_exception(case, failure.exception, backend)


def _by_contract(located: Locate, backend: str) -> Explain:
    violation = located.violations[0]
    index = "index" in violation.contract or "row" in violation.contract
    evidence = []
    for element in violation.elements[:3]:
        text = f"{located.operator}: {violation.argument}{list(element.index)} is {element.value}, allowed is {violation.allowed}"
        evidence.append(text + (f" (sample {element.sample})" if element.sample is not None else ""))
    value = violation.elements[0].value if violation.elements else None
    also = ("nonfinite",) if isinstance(value, float) and value != value else ()
    return explained(FAULTS["index_out_of_domain" if index else "value_out_of_domain"], tuple(evidence), backend, also)


def _fetch_evidence(case: Case) -> str:
    fetch = case.failure.fetch
    assert fetch is not None
    where = f"worker {fetch.worker}" if fetch.worker is not None else "the main process"
    what = f"reading sample {fetch.sample}" if fetch.stage == "getitem" and fetch.sample is not None else {"collate": "putting the samples together", "getitem": "reading the samples"}.get(fetch.stage, "starting")
    return f"raised in {where} while {what}: {_said(case.failure.exception)}"


def _said(exception: ExceptionInfo | None) -> str:
    if exception is None:
        return ""
    type_, message = unwrap_worker(exception.type, exception.message)
    return f"{type_}: {message}".splitlines()[0][:_MAX_QUOTE]


def _text_classes(case: Case) -> tuple[str, ...]:
    if case.failure.exception is None:
        return ()
    finding = classify_text(_said(case.failure.exception))
    return (finding.fault,) if finding.fault != "other" else ()


def _by_exception(case: Case, exception: ExceptionInfo, backend: str) -> Explain:
    type_, message = unwrap_worker(exception.type, exception.message)
    said = f"{type_}: {message}"
    stderr = case.failure.stderr_tail or ""
    asserted = parse_device_asserts(stderr)
    text = "\n".join([*(each.text for each in asserted), said])
    names = {type_, *exception.bases}
    if {"torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"} & names:
        return explained(FAULTS["out_of_memory"], (_said(exception),), backend)
    finding = classify_text(text)
    fault = FAULTS[finding.fault]
    if fault is OTHER or fault.name == "environment_binary":
        own = _raised_by_user(case)
        if own and (nonfinite_kind(message) or "FloatingPointError" in names):
            fault = FAULTS["nonfinite"]
        elif "MemoryError" in names:
            fault = FAULTS["host_memory"]
    return explained(fault, (_said(exception),), backend, finding.also if fault.name == finding.fault else ())


def _raised_by_user(case: Case) -> bool:
    frames = case.failure.frames
    return bool(frames) and frames[-1].owner == "user"
