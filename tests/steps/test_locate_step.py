"""The locating step on recorded cases: which ways it goes, what it makes of their outcomes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firstfault.case.schema import Case, Environment, ExceptionInfo, Failure, Progress, Source
from firstfault.case.store import CaseFolder
from firstfault.ops.late import reports_late
from firstfault.steps.locate import DYING, LIGHT, PLAIN, SYNCHRONISED, locate, read_finding, ways
from firstfault.steps.replay import replay
from firstfault.trial.engine import Engine
from firstfault.trial.plan import SourcePlan


def case(backend: str, type_: str, message: str, kind: Any = "raised") -> Case:
    failure = Failure(kind=kind, phase="forward", exception=ExceptionInfo(type=type_, message=message))
    return Case(
        firstfault="0",
        id="c",
        created=0.0,
        failure=failure,
        progress=Progress(),
        environment=Environment(python="3.11", platform="Linux", backend=backend),
        source=Source(),
    )


ASSERTED = ("torch.AcceleratorError", "CUDA error: device-side assert triggered")


def test_nvidia_waits_by_its_variable_first_then_by_the_trace() -> None:
    """A device assert on CUDA: launches wait, then every operator does."""
    first, second, last = ways(case("cuda", *ASSERTED))
    assert first.variant is not None
    assert (first.instrument, first.variant.environment) == (PLAIN, {"CUDA_LAUNCH_BLOCKING": "1"})
    assert (second.instrument, second.variant) == (SYNCHRONISED, None)
    assert last.instrument == LIGHT


def test_rocm_has_variables_of_its_own() -> None:
    """ROCm is never given NVIDIA's variable, though its errors may be worded like NVIDIA's."""
    for message in (ASSERTED[1], "HIP error: unspecified launch failure"):
        first, *_ = ways(case("rocm", "RuntimeError", message))
        assert first.variant is not None
        assert first.variant.environment == {"AMD_SERIALIZE_KERNEL": "3", "AMD_SERIALIZE_COPY": "3"}


@pytest.mark.parametrize("backend", ["mps", "xpu", "cpu"])
def test_others_wait_by_the_trace_alone(backend: str) -> None:
    """Back ends without such a variable are traced as they are, then with their own synchronise."""
    plain, waiting, _ = ways(case(backend, *ASSERTED))
    assert (plain.variant, waiting.variant) == (None, None)
    assert (plain.instrument, waiting.instrument) == (PLAIN, SYNCHRONISED)


def test_an_error_of_the_host_needs_no_waiting() -> None:
    """A shape error on a machine with a GPU was raised where it happened."""
    assert [way.instrument for way in ways(case("cuda", "RuntimeError", "shapes cannot be multiplied"))] == [
        PLAIN,
        LIGHT,
    ]


def test_lack_of_memory_is_traced_lightly() -> None:
    """Out of memory is located without holding on to a tensor."""
    assert [
        way.instrument for way in ways(case("cuda", "torch.OutOfMemoryError", "CUDA out of memory."))
    ] == [LIGHT]


def test_a_killed_process_writes_before_it_dies() -> None:
    """A crash is located by what was written before each operator."""
    assert [way.instrument for way in ways(case("cpu", "SIGSEGV", "", "killed"))] == [DYING]


@pytest.mark.parametrize(
    ("text", "late"),
    [
        ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", True),
        ("RuntimeError: HIP error: unspecified launch failure", True),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", True),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", False),
        ("RuntimeError: Expected all tensors to be on the same device, cuda:0 and cpu", False),
        ("IndexError: Target 4 is out of bounds.", False),
    ],
)
def test_which_errors_are_late(text: str, late: bool) -> None:
    """Device errors may come from an earlier operator; the host's own checks may not."""
    assert reports_late(text) is late


@pytest.fixture
def located(workplace: Any) -> Callable[[str], Any]:
    """Record a failing script, reproduce it and locate it; gives the finding and the number of trials."""

    def run(source: str) -> Any:
        workplace.write("train.py", source)
        workplace.firstfault("run", "train.py")
        (folder,) = workplace.cases
        case = CaseFolder(folder)
        with Engine(workplace.folder / "trials", jobs=1) as engine:
            assert replay(case, engine, runs=1).outcome == "same"
            finding = locate(case, engine)
        assert case.finding("locate") == finding
        return finding

    return run


def test_the_whole_road(located: Callable[[str], Any]) -> None:
    """From a script to the element at fault, through two workers, padding and a sub-word sequence."""
    finding = located(
        """
        import torch
        from torch import nn
        from torch.nn.utils.rnn import pad_sequence
        from torch.utils.data import DataLoader

        DATA = [{"ids": [n % 7 + 1] * (n % 5 + 1), "labels": torch.tensor([n % 3, 1])} for n in range(40)]
        DATA[23]["ids"][2] = 30

        def collate(items):
            ids = pad_sequence([torch.tensor(item["ids"]) for item in items], batch_first=True)
            return {"ids": ids, "labels": torch.stack([item["labels"] for item in items])}

        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.words = nn.Embedding(20, 4)

            def forward(self, ids):
                return self.words(ids).sum(1)

        if __name__ == "__main__":
            torch.manual_seed(0)
            loader = DataLoader(DATA, batch_size=8, shuffle=True, num_workers=2, collate_fn=collate)
            model = nn.Sequential(Encoder(), nn.Linear(4, 3))
            for batch in loader:
                model(batch["ids"])
        """
    )
    assert finding.operator == "aten.embedding"
    assert finding.module == "0.words (Embedding)"
    assert finding.began.code == "return self.words(ids).sum(1)"
    (violation,) = finding.violations
    (element,) = violation.elements
    assert (element.value, element.sample, element.leaf, element.path) == (30, 23, "['ids']", "['ids'][2]")
    assert finding.trials == 1
    assert finding.summary.startswith("aten.embedding at train.py:20; indices holds 30, allowed is [0, 20)")


def test_a_process_that_dies_of_an_operator(tmp_path: Path) -> None:
    """A crash inside an operator is located by what was written before it, though nothing was raised."""
    source = """
import os, signal, torch

@torch.library.custom_op("mine::crash", mutates_args=())
def crash(x: torch.Tensor) -> torch.Tensor:
    if x.max() > 5:
        os.kill(os.getpid(), signal.SIGSEGV)
    return x.clone()

for n in range(8):
    crash(torch.full((2,), n))  # here
"""
    with Engine(tmp_path, jobs=1) as engine:
        outcome = engine.run(SourcePlan(text=source, instruments=(DYING,)))
        finding = read_finding(outcome)
    assert outcome.failure is not None
    assert outcome.failure.kind == "killed"
    assert finding is not None
    assert finding.operator == "mine.crash"
    assert finding.began is not None
    assert (finding.began.code or "").endswith("# here")


def test_nothing_is_located_before_a_replay(workplace: Any) -> None:
    """Without a reproduction the finding says so, and no trial is run."""
    workplace.write("train.py", "raise ValueError('no')")
    workplace.firstfault("run", "train.py")
    (folder,) = workplace.cases
    with Engine(workplace.folder / "trials", jobs=1) as engine:
        finding = locate(CaseFolder(folder), engine)
    assert finding.not_done == "the failure has not been reproduced"
    assert finding.trials == 0
    assert msgspec.json.encode(finding)
