"""From a text, or from a case with its findings, to a fault class with its evidence.

Of the failures of a text the first one counts, and those that only tell how a failure arrived (a time-out, a dead
worker, a status that an earlier kernel left behind) give way to what they arrived from. Evidence of a case beats its
words. Where nothing fits, the answer is ``other``: a wrong class is worse than none.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

from firstfault.case.device_asserts import parse_device_asserts
from firstfault.case.findings import Explain, Finding, Locate, Violation
from firstfault.case.schema import Case
from firstfault.faults import evidence
from firstfault.faults.catalogue import FAULTS, OTHER, Fault
from firstfault.faults.recognise import Reading, recognise
from firstfault.faults.sighting import Sighting, assertion, recorded
from firstfault.faults.transcript import clean, everything, is_carrier, sightings

MAX_CONSEQUENCES = 4  # later failures of a text that are quoted
_DISTINCT_LINES = re.compile(r"\d+")  # log lines that differ in numbers alone are read once

# ---- texts ------------------------------------------------------------------------------------------------------------


def classify_text(text: str) -> Explain:
    """The class of the first failure in a text that a person pasted, with what follows it.

    ``also`` holds first the classes of the later failures, then what the class is mistaken for.
    """
    readings = _readings(sightings(text))
    backend = backend_of_text(clean(text))
    first = first_of(readings)
    if first is None:
        whole = recognise(everything(text))
        if whole.fault is None or not text.strip():
            return _unknown(readings, backend)
        first = whole
        readings = [whole]
    if first.fault is None:
        return _unknown(readings, backend, first)
    later = [
        reading
        for reading in readings
        if reading is not first and reading.sighting.position >= 0 and not reading.sighting.warning
    ]
    quotes = [first.sighting.quote, *evidence.of_message(first.fault, first.sighting.message)]
    quotes += _followed_by(first, later)
    return explained(first.fault, quotes, backend, [each.fault.name for each in later if each.fault])


def _readings(seen: Sequence[Sighting]) -> list[Reading]:
    """Every failure with its class; of log lines only those that some rule knows, and each wording once."""
    readings = []
    known: set[str] = set()
    for sighting in seen:
        if sighting.kind == "log":
            wording = _DISTINCT_LINES.sub("0", sighting.message)
            if wording in known:
                continue
            known.add(wording)
        reading = recognise(sighting)
        if reading.fault is not None or sighting.kind == "exception":
            readings.append(reading)
    return readings


def first_of(readings: Sequence[Reading]) -> Reading | None:
    """The failure that the others follow from; None when there is none at all.

    A chain ('During handling of…') stands in time's order, so its first known failure speaks for it: what was handled
    without being known (a KeyError of a look-up) is how Python programs find things. Between chains nobody says which
    came first but their place in the text, and processes write when they like: a class that tells how a failure arrived
    gives way to any that tells what it was, and, when it comes from another process, to any exception.
    """
    chains = itertools.groupby(sorted(readings, key=_chain), _chain)
    heads = [_head(list(chain)) for _, chain in chains]
    real = [head for head in heads if not head.sighting.warning and not is_carrier(head.sighting)]
    known = [head for head in real if head.fault is not None and not head.weak]
    unknown = [head for head in real if head.fault is None]
    guessed = [head for head in real if head.weak and head.sighting.kind == "exception"]
    if known:
        first = _nearest(known)
        own = [head for head in [*unknown, *guessed] if not _late(head)]
        return _nearest(own) if own and _late(first) >= FAULTS["distributed"].late else first
    if unknown:
        return _nearest([*unknown, *guessed])
    weak = [head for head in heads if head.fault is not None]
    return _nearest(weak) if weak else None


def _chain(reading: Reading) -> int:
    return reading.sighting.chain


def _head(chain: Sequence[Reading]) -> Reading:
    ordered = sorted(chain, key=lambda each: each.sighting.position)
    for wanted in (False, True):
        for reading in ordered:
            if reading.fault is not None and reading.weak is wanted:
                return reading
    return next((each for each in ordered if not is_carrier(each.sighting)), ordered[0])


def _late(reading: Reading) -> int:
    return reading.fault.late if reading.fault is not None else 0


def _nearest(heads: Sequence[Reading]) -> Reading:
    """The first of those that are nearest to the beginning of things."""
    return min(heads, key=lambda head: (_late(head), head.sighting.position))


def _followed_by(first: Reading, later: Sequence[Reading]) -> list[str]:
    quotes = dict.fromkeys(
        each.sighting.quote for each in later if each.sighting.quote != first.sighting.quote
    )
    before = {each.sighting.quote for each in later if each.sighting.position < first.sighting.position}
    return [
        f"{'printed before it' if quote in before else 'then'}: {quote}"
        for quote in list(quotes)[:MAX_CONSEQUENCES]
    ]


_NOTHING = "Nothing in the text is a failure: take the output from the first error on, with standard error; for a process that just ended, its exit code, the kernel's log (dmesg) and, with python -X faulthandler, where it stood."
_EXCEPTION = "Read the first exception at its own line: it isn't one that torch words. Run the script under firstfault run to get the batch, the frames and the phase."


def _unknown(readings: Sequence[Reading], backend: str | None, first: Reading | None = None) -> Explain:
    """``other``, with what to collect."""
    if first is None:
        return explained(OTHER, (), backend, first_check=_NOTHING)
    later = [each for each in readings if each is not first]
    quotes = [first.sighting.quote, *_followed_by(first, later)]
    faults = [each.fault.name for each in later if each.fault]
    return explained(OTHER, quotes, backend, faults, first_check=_EXCEPTION)


# ROCm first: its builds say CUDA too, in names that come from torch.cuda.
_BACKENDS = (
    (
        r"\bHIP\b|\bhip(?:Error|Malloc|Graph|Launch)\w*|\b[Rr][Oo][Cc]m\b|\bRCCL\b|MIOpen|miopen|rocblas|rocBLAS|HIPBLAS|\bHSA_|\bgfx\d|AMD_SERIALIZE|[/\\]hip[/\\]|\.hip:",
        "rocm",
    ),
    (r"\bMPS\w*\b|\bmps:\d|Metal\b", "mps"),
    (r"\bXPU\b|\bxpu:\d|\bSYCL\b|\bsycl\b|UR_RESULT|Level[- ]Zero", "xpu"),
    (r"CUDA|\bcuda\b|cuda:\d|torch\.cuda|NCCL|cu(?:DNN|BLAS|FFT)|CUDNN|CUBLAS|THC|NVIDIA|\.cuh?:\d", "cuda"),
    (r"DefaultCPUAllocator|\w_cpu\b|\bcpu_\w|CPUType|oneDNN|\bMKL\b|/CPU/|[Oo]n the CPU|'CPU'", "cpu"),
)


def backend_of_text(text: str) -> str | None:
    """The back end that a text speaks of; None when it doesn't say."""
    return next((name for pattern, name in _BACKENDS if re.search(pattern, text)), None)


# ---- cases ------------------------------------------------------------------------------------------------------------


def classify_case(case: Case, found: Mapping[str, Finding] | None = None) -> Explain:
    """The class of a case. What a step found beats the frames, the frames beat the device's assertions, those the words."""
    findings = found or {}
    fault, quotes, also = _decided(case, findings)
    quotes = [*quotes, *evidence.of_case(fault, case, findings)]
    return explained(fault, quotes, backend_of_case(case), also)


def _decided(case: Case, found: Mapping[str, Finding]) -> tuple[Fault, list[str], list[str]]:
    """The class, what decides it, and further classes that the case speaks of."""
    failure = case.failure
    said = _own_reading(case)
    if failure.fetch is not None and not _about_the_machine(said):
        name = "collate" if failure.fetch.stage == "collate" else "dataset_error"
        inner = [said.fault.name] if said is not None and said.fault is not None else []
        return FAULTS[name], [evidence.of_fetch(case)], inner
    located = found.get("locate")
    if isinstance(located, Locate) and located.violations:
        fault = FAULTS[fault_of(located.violations[0])]
        nan = any(_is_nan(each.value) for each in located.violations[0].elements)
        return fault, evidence.of_violations(located), ["nonfinite"] if nan else []
    if failure.kind == "nonfinite":
        return FAULTS["nonfinite"], [said.sighting.quote] if said else [], []
    asserted = failure.device_asserts or parse_device_asserts(failure.stderr_tail or "")
    if asserted and (said is None or said.fault is None or said.fault.late):
        readings = [recognise(assertion(each)) for each in asserted]
        best = _nearest(readings)
        assert best.fault is not None  # every assertion is at least a device_assert
        return best.fault, [each.sighting.quote for each in readings[:3]], []
    if said is not None and said.fault is not None:
        return said.fault, [said.sighting.quote], []
    return _by_what_surrounds(case, said)


def _own_reading(case: Case) -> Reading | None:
    """The exception of the case, read with its frames; None when there is none."""
    failure = case.failure
    if failure.exception is None:
        return None
    frames = failure.fetch.frames if failure.fetch is not None and failure.fetch.frames else failure.frames
    own = recognise(recorded(failure.exception, frames))
    if own.fault is not None and not own.weak:
        return own
    causes = [recognise(recorded(each)) for each in failure.exception.caused_by]
    # What it was raised from is asked only where it doesn't speak for itself.
    wraps = [each for each in causes if each.fault is not None and not each.weak and not each.fault.late]
    return wraps[-1] if own.fault is None and wraps else own


def _about_the_machine(reading: Reading | None) -> bool:
    return (
        reading is not None
        and reading.fault is not None
        and not reading.weak
        and (reading.fault.about_the_machine or bool(reading.fault.late))
    )


def fault_of(violation: Violation) -> str:
    """The class of breaking a contract."""
    if violation.fault is not None and violation.fault in FAULTS:
        return violation.fault
    whole = all(isinstance(each.value, int) for each in violation.elements)
    return "index_out_of_domain" if whole else "value_out_of_domain"


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and value != value


_SIGNALS = {"SIGKILL": "host_memory", "SIGBUS": "host_memory"}


def _by_what_surrounds(case: Case, said: Reading | None) -> tuple[Fault, list[str], list[str]]:
    """The class of a case whose exception says nothing, or that has none."""
    failure = case.failure
    quotes = [said.sighting.quote] if said is not None else []
    for consequence in failure.consequences:
        wrapping = recognise(recorded(consequence.exception))
        if wrapping.fault is not None and wrapping.fault.name == "compile_failure":
            return wrapping.fault, [*quotes, wrapping.sighting.quote], []
    if failure.exception is not None and failure.exception.type in _SIGNALS:
        return FAULTS[_SIGNALS[failure.exception.type]], [f"the process died of {failure.exception.type}"], []
    if failure.kind != "raised" and failure.stderr_tail:
        printed = first_of(_readings(sightings(failure.stderr_tail)))
        if printed is not None and printed.fault is not None:
            return printed.fault, [*quotes, printed.sighting.quote], []
    if failure.kind == "stalled" and failure.phase == "data":
        return FAULTS["dataloader_worker"], ["no batch came, and none of the workers answered"], []
    if failure.kind == "stalled" and case.rank is not None and (case.rank.world_size or 1) > 1:
        return FAULTS["distributed"], [f"rank {case.rank.rank} of {case.rank.world_size} stood still"], []
    return OTHER, quotes, []


def backend_of_case(case: Case) -> str:
    """The back end that the failing step ran on: the recorded one, where it has a device or the batch lies on one."""
    environment = case.environment
    if environment.devices or environment.backend == "cpu":
        return environment.backend
    on_device = case.batch is not None and any(leaf.device != "cpu" for leaf in case.batch.leaves)
    return environment.backend if on_device else "cpu"


# ---- findings ---------------------------------------------------------------------------------------------------------


def explained(
    fault: Fault,
    quotes: Sequence[str],
    backend: str | None,
    also: Sequence[str] = (),
    first_check: str | None = None,
) -> Explain:
    """A class as a finding. ``also`` are further classes that were met; what the class is mistaken for comes after them."""
    advice = fault.advice(backend)
    others = tuple(dict.fromkeys(name for name in (*also, *fault.also) if name not in (fault.name, "other")))
    return Explain(
        summary=f"{fault.name}: {fault.title}",
        fault=fault.name,
        family=fault.family,
        first_check=first_check or advice.first_check or "",
        avoid=advice.avoid or "",
        backend=backend,
        evidence=tuple(dict.fromkeys(quote for quote in quotes if quote)),
        also=others,
    )
