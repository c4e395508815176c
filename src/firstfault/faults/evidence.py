"""What a message or a case shows about a fault, beyond its class: the figures that a person would look up first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from firstfault.case.findings import Argument, Contrast, Finding, Locate
from firstfault.case.schema import Case, Device
from firstfault.faults.fault import Fault
from firstfault.faults.memory import figures_of, growth, speaks
from firstfault.faults.sighting import quoted, recorded

MAX_ELEMENTS = 3  # elements at fault that are quoted; the finding of locate has more

# ---- contracts and fetches --------------------------------------------------------------------------------------------


def of_violations(located: Locate) -> list[str]:
    """The elements at fault, with what is allowed and the sample that they came from."""
    quotes = []
    for violation in located.violations:
        where = f"{located.operator}: {violation.argument}"
        for element in violation.elements[:MAX_ELEMENTS]:
            sample = f" (sample {element.sample})" if element.sample is not None else ""
            place = list(element.index) if element.index else ""
            quotes.append(f"{where}{place} is {element.value}, allowed is {violation.allowed}{sample}")
        if not violation.elements:
            quotes.append(f"{where}: {violation.note or violation.contract}, allowed is {violation.allowed}")
        elif violation.count > len(violation.elements[:MAX_ELEMENTS]):
            quotes.append(f"{violation.count} elements of {violation.argument} in all")
    return quotes


def of_fetch(case: Case) -> str:
    """Who was doing what when a fetch failed, and what was raised."""
    fetch = case.failure.fetch
    assert fetch is not None
    where = "the main process" if fetch.worker is None else f"worker {fetch.worker}"
    doing = {"collate": "putting the samples together", "init": "starting", "getitem": "reading the samples"}[
        fetch.stage
    ]
    if fetch.stage == "getitem" and fetch.sample is not None:
        doing = f"reading sample {fetch.sample}"
    raised = recorded(case.failure.exception).quote if case.failure.exception is not None else "nothing said"
    return f"raised in {where} while {doing}: {raised}"


# ---- messages ---------------------------------------------------------------------------------------------------------


def of_message(fault: Fault, message: str) -> list[str]:
    """What the figures in a message come to."""
    if fault.name == "out_of_memory":
        return speaks(figures_of(message))
    if fault.name == "kernel_unavailable":
        return list(_architectures_of_message(message))
    return []


def _architectures_of_message(message: str) -> Iterator[str]:
    device = re.search(r"CUDA capability (sm_\d+\w?) is not compatible", message)
    built = re.search(r"supports CUDA capabilities ((?:sm_\d+\w? ?)+)", message)
    if device and built:
        yield f"the device is {device[1]}, the build has {', '.join(built[1].split())}"


# ---- cases ------------------------------------------------------------------------------------------------------------


def of_case(fault: Fault, case: Case, found: Mapping[str, Finding]) -> list[str]:
    """What the case shows about its class."""
    if case.failure.exception is not None:
        said = of_message(fault, recorded(case.failure.exception).message)
    else:
        said = []
    return said + list(_OF_CLASS.get(fault.name, _nothing)(case, found))


def _nothing(case: Case, found: Mapping[str, Finding]) -> Iterator[str]:
    yield from ()


def _located(found: Mapping[str, Finding]) -> Locate | None:
    located = found.get("locate")
    return located if isinstance(located, Locate) and located.operator else None


def _memory(case: Case, found: Mapping[str, Finding]) -> Iterator[str]:
    """Whether memory grew step after step, and whether this batch is larger than the others."""
    if case.memory is not None:
        for device, held in case.memory.device.items():
            if "allocated" in held and "reserved" in held:
                yield f"{device} held {_size(held['allocated'])}, reserved {_size(held['reserved'])}"
        grown = growth([float(held) for _, held in case.memory.history])
        if grown is not None:
            yield grown
    contrast = found.get("contrast")
    if isinstance(contrast, Contrast):
        for difference in contrast.differences:
            if "extent" in difference.feature or "size" in difference.feature:
                yield f"{difference.feature}: {difference.failing} in this batch, {difference.others} in the others"
                break


def _size(count: float) -> str:
    return f"{count / 2**30:.2f} GiB"


def _devices(case: Case, found: Mapping[str, Finding]) -> Iterator[str]:
    """Which argument is on another device than the others, what it is and where it was made."""
    located = _located(found)
    if located is None:
        return
    tensors = [argument for argument in located.arguments if argument.device is not None]
    for stray in _strays(tensors, [argument.device or "" for argument in tensors]):
        yield f"{_argument(stray)} is on {stray.device}, the others are not{_made_at(located)}"


def _dtypes(case: Case, found: Mapping[str, Finding]) -> Iterator[str]:
    """The dtypes of the operator's arguments."""
    located = _located(found)
    if located is None:
        return
    said = [f"{_argument(each)} is {each.dtype}" for each in located.arguments if each.dtype is not None]
    if said:
        yield f"{located.operator}: {'; '.join(said)}{_made_at(located)}"


def _shapes(case: Case, found: Mapping[str, Finding]) -> Iterator[str]:
    """The shapes of the operator's arguments, and whether the batch is an incomplete one."""
    located = _located(found)
    if located is not None:
        said = [
            f"{_argument(each)} {list(each.shape)}" for each in located.arguments if each.shape is not None
        ]
        if said:
            yield f"{located.operator}: {'; '.join(said)}"
    batch = case.batch
    if batch is not None and batch.size and batch.expected_size and batch.size != batch.expected_size:
        yield f"the batch has {batch.size} samples, the loader's size is {batch.expected_size}"


def _layouts(case: Case, found: Mapping[str, Finding]) -> Iterator[str]:
    located = _located(found)
    if located is None:
        return
    for each in located.arguments:
        if each.shape is not None and each.stride is not None and not _is_contiguous(each.shape, each.stride):
            yield f"{_argument(each)} has shape {list(each.shape)} and strides {list(each.stride)}: not contiguous"


def _is_contiguous(shape: Sequence[int], stride: Sequence[int]) -> bool:
    expected = 1
    for size, step in zip(reversed(shape), reversed(stride), strict=True):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True


def _kernels(case: Case, found: Mapping[str, Finding]) -> Iterator[str]:
    """Whether the build has code for the device, and which torch the extensions were built for."""
    environment = case.environment
    for device in environment.devices:
        missing = _missing_architecture(device, environment.arch_list)
        if missing is not None:
            yield missing
    versions = [
        f"{name} {environment.packages[name]}" for name in _EXTENSIONS if name in environment.packages
    ]
    if versions and environment.torch:
        yield f"torch {environment.torch} with {', '.join(versions)}"


_EXTENSIONS = (
    "torchvision",
    "torchaudio",
    "flash-attn",
    "xformers",
    "triton",
    "bitsandbytes",
    "torch-scatter",
)


def _missing_architecture(device: Device, built: Sequence[str]) -> str | None:
    """What to say when none of the build's architectures runs on the device; None when one does or nobody knows.

    Code for a capability runs on the same major version with the same or a higher minor one; compute_XY is PTX, which
    a newer driver compiles for any later device (CUDA's programming guide, 'binary compatibility').
    """
    if device.capability is None or "." not in device.capability or not built:
        return None
    major, minor = (int(part) for part in device.capability.split(".")[:2])
    for architecture in built:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", architecture)
        if match is None:
            return None
        has = (int(match[2]), int(match[3]))
        if has <= (major, minor) and (match[1] == "compute" or has[0] == major):
            return None
    return f"{device.name or device.kind} is sm_{major}{minor}, the build has {', '.join(built)}"


def _nonfinite(case: Case, found: Mapping[str, Finding]) -> Iterator[str]:
    located = _located(found)
    if located is not None:
        yield f"the first operator with a non-finite result: {located.operator}"


def _changed(case: Case, found: Mapping[str, Finding]) -> Iterator[str]:
    located = _located(found)
    if located is not None and located.changed_at is not None:
        yield f"changed at {located.changed_at.file}:{located.changed_at.line} in {located.changed_at.function}"


def _workers(case: Case, found: Mapping[str, Finding]) -> Iterator[str]:
    """What the workers said, and how many there were."""
    number = case.progress.loader
    loader = next((each for each in case.loaders if each.loader == number), None)
    if loader is not None and loader.workers:
        method = f", started by {loader.start_method}" if loader.start_method else ""
        yield f"{loader.name or f'loader {number}'} has {loader.workers} workers{method}"
    if case.memory is not None and case.memory.available is not None:
        yield f"the host had {_size(case.memory.available)} of memory left"


def _ranks(case: Case, found: Mapping[str, Finding]) -> Iterator[str]:
    if case.rank is not None:
        size = f" of {case.rank.world_size}" if case.rank.world_size else ""
        yield f"this is rank {case.rank.rank}{size}: another rank may have failed before it"


_OF_CLASS: dict[str, Callable[[Case, Mapping[str, Finding]], Iterator[str]]] = {
    "out_of_memory": _memory,
    "host_memory": _workers,
    "device_mismatch": _devices,
    "dtype_mismatch": _dtypes,
    "shape_mismatch": _shapes,
    "layout_contract": _layouts,
    "kernel_unavailable": _kernels,
    "environment_binary": _kernels,
    "nonfinite": _nonfinite,
    "inplace_autograd": _changed,
    "dataloader_worker": _workers,
    "distributed": _ranks,
    "ddp_unused": _ranks,
}


def _argument(argument: Argument) -> str:
    return quoted(argument.name + (f" ({argument.origin})" if argument.origin else ""))


def _made_at(located: Locate) -> str:
    made = located.made_at
    return "" if made is None else f"; made at {made.file}:{made.line} in {made.function}"


def _strays(arguments: Sequence[Argument], devices: Sequence[str]) -> list[Argument]:
    """The arguments on the device that holds the fewest of them; of two on two devices, the one on the CPU."""
    counts = {device: devices.count(device) for device in dict.fromkeys(devices)}
    if len(counts) < 2:
        return []
    fewest = min(counts, key=lambda device: (counts[device], device != "cpu"))
    return [argument for argument in arguments if argument.device == fewest]
