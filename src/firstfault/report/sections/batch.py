"""The batch in progress: its samples, which of them are at fault, and its tensors."""

from __future__ import annotations

from firstfault.case.findings import Locate, Shrink
from firstfault.report import words
from firstfault.report.document import Block, Mark, Pairs, Section, Strip, Table
from firstfault.report.view import CaseView

_MOST_CELLS = 256  # samples that are drawn
_MOST_LEAVES = 24


def batch(view: CaseView) -> Section:
    """Samples and tensors; says so when there was no batch."""
    case = view.case
    if case.batch is None:
        return Section(
            name="batch",
            title="The batch",
            kind="fact",
            lead=f"No batch was in progress: the failure came {words.position(case)}.",
        )
    blocks: list[Block] = []
    guilty = at_fault(view)
    if case.batch.indices:
        told = words.listed([each for each in case.batch.indices if str(each) in guilty])
        said = f"at fault: {told}" if guilty else "which of them is at fault is not known"
        cut = f" (the first {_MOST_CELLS} are drawn)" if len(case.batch.indices) > _MOST_CELLS else ""
        blocks.append(
            Strip(
                cells=tuple(
                    (str(each), _mark(str(each), guilty)) for each in case.batch.indices[:_MOST_CELLS]
                ),
                said=f"{words.counted(len(case.batch.indices), 'sample')} in the order in which they were fetched{cut}; {said}.",
            )
        )
    if case.batch.leaves:
        rows = tuple(
            (
                each.path or "the batch",
                words.tensor(each.dtype, each.shape),
                each.device,
                str(list(each.stride)) if each.stride is not None else each.layout,
            )
            for each in case.batch.leaves[:_MOST_LEAVES]
        )
        blocks.append(Table(columns=("leaf", "tensor", "device", "strides"), rows=rows, code=(0, 1, 2, 3)))
    loader = next((each for each in case.loaders if each.loader == case.progress.loader), None)
    if loader is not None:
        size = f"{loader.length:,} samples" if loader.length is not None else "length not recorded"
        workers = words.counted(loader.workers, "worker") if loader.workers else "no workers"
        order = (
            "order not recorded" if loader.shuffled is None else "shuffled" if loader.shuffled else "in order"
        )
        blocks.append(
            Pairs(
                rows=(
                    ("data set", f"{loader.dataset or 'not recorded'}, {size}"),
                    ("loader", f"batches of {loader.batch_size or 'a size of its own'}, {workers}, {order}"),
                )
            )
        )
    return Section(
        name="batch", title="The batch", kind="fact", lead=words.samples(case), blocks=tuple(blocks)
    )


def _mark(sample: str, guilty: frozenset[str]) -> Mark:
    return "bad" if sample in guilty else ""


def at_fault(view: CaseView) -> frozenset[str]:
    """The samples at fault as text, as far as a step or the data set's own failure names them."""
    shrink, locate, fetch = view.findings.get("shrink"), view.findings.get("locate"), view.case.failure.fetch
    if isinstance(shrink, Shrink) and shrink.culprits:
        return frozenset(str(each) for each in shrink.culprits)
    if isinstance(locate, Locate) and locate.violations:
        elements = [element for violation in locate.violations for element in violation.elements]
        return frozenset(str(each.sample) for each in elements if each.sample is not None)
    if fetch is not None and fetch.sample is not None:
        return frozenset([str(fetch.sample)])
    return frozenset()
