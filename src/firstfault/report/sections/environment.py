"""Versions, devices, switches, and which source was run."""

from __future__ import annotations

from firstfault.case.schema import Device
from firstfault.report import words
from firstfault.report.document import Block, Pairs, Section, Table
from firstfault.report.view import CaseView

_MOST_PACKAGES = 40


def environment(view: CaseView) -> Section:
    """What a person needs to set up the same."""
    facts, source, rank = view.case.environment, view.case.source, view.case.rank
    built = (
        f", built for CUDA {facts.cuda}"
        if facts.cuda
        else f", built for ROCm {facts.hip}"
        if facts.hip
        else ""
    )
    cudnn = f", cuDNN {facts.cudnn}" if facts.cudnn else ""
    rows = [
        ("torch", f"{facts.torch or 'not recorded'} ({words.backend(facts.backend)}{built}{cudnn})"),
        ("Python", f"{facts.python} on {facts.platform}"),
        ("devices", "; ".join(_device(each) for each in facts.devices) or "none in use"),
        ("script", _script(view)),
        ("commit", f"{source.commit or 'not recorded'}{_modified(view)}"),
    ]
    if rank is not None:
        size = "" if rank.world_size is None else f" of {rank.world_size}"
        rows.append(("rank", f"{rank.rank}{size}"))
    if view.case.notes:
        rows += [("note", each) for each in view.case.notes]
    blocks: list[Block] = [Pairs(rows=tuple(rows))]
    switches = [(name, str(value)) for name, value in facts.flags.items()]
    switches += [(name, value) for name, value in facts.variables.items()]
    if switches:
        blocks.append(
            Table(
                columns=("switch", "value"),
                rows=tuple(switches),
                code=(0, 1),
                caption="Switches and variables",
            )
        )
    if facts.packages:
        packages = tuple(list(facts.packages.items())[:_MOST_PACKAGES])
        blocks.append(Table(columns=("package", "version"), rows=packages, code=(0, 1), caption="Packages"))
    return Section(
        name="environment",
        title="Environment",
        kind="fact",
        lead=f"torch {facts.torch or 'not recorded'}, Python {facts.python}, {words.backend(facts.backend)}",
        blocks=tuple(blocks),
    )


def _device(device: Device) -> str:
    number = "" if device.index is None else f":{device.index}"
    details = [
        device.name,
        f"capability {device.capability}" if device.capability else None,
        words.size(device.memory_bytes) if device.memory_bytes else None,
    ]
    return (
        f"{device.kind}{number} ({', '.join(each for each in details if each)})"
        if any(details)
        else f"{device.kind}{number}"
    )


def _script(view: CaseView) -> str:
    source = view.case.source
    target = f"-m {source.module}" if source.module else source.script or "not recorded"
    return " ".join([target, *source.argv])


def _modified(view: CaseView) -> str:
    return {True: ", with changes that are not committed", False: ", clean", None: ""}[
        view.case.source.modified
    ]
