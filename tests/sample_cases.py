"""Cases as the recorder and the steps write them, one of each kind: for tests of what people see."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from firstfault.case import findings as found
from firstfault.case.schema import (
    Batch,
    Case,
    Consequence,
    Device,
    DeviceAssert,
    Environment,
    ExceptionInfo,
    Failure,
    Frame,
    Leaf,
    Loader,
    Memory,
    Progress,
    Rank,
    Source,
    SourceFile,
    Unstepped,
    WorkerFailure,
)
from firstfault.faults.classify import classify_case
from firstfault.report.view import CaseView

ROOT = "/home/jane.doe/projects/tickets"
TORCH = "/opt/conda/lib/python3.11/site-packages/torch"
CPU = Environment(
    python="3.11.7",
    platform="Linux-6.1.0-x86_64-with-glibc2.36",
    torch="2.13.0+cpu",
    backend="cpu",
    threads=8,
    packages={"torch": "2.13.0+cpu", "numpy": "2.4.6", "lightning": "2.6.1"},
    flags={"deterministic_algorithms": False, "float32_matmul_precision": "highest", "cudnn.enabled": True},
    variables={"OMP_NUM_THREADS": "8"},
)
CUDA = Environment(
    python="3.12.3",
    platform="Linux-5.15.0-x86_64-with-glibc2.35",
    torch="2.13.0+cu130",
    backend="cuda",
    cuda="13.0",
    cudnn="9.12.0",
    arch_list=("sm_80", "sm_90"),
    devices=(
        Device(kind="cuda", index=0, name="NVIDIA H200", capability="9.0", memory_bytes=150_000_000_000),
    ),
    threads=16,
    packages={"torch": "2.13.0+cu130", "numpy": "2.4.6", "transformers": "5.3.0"},
    flags={"deterministic_algorithms": False, "float32_matmul_precision": "high", "cudnn.benchmark": True},
    variables={"CUDA_VISIBLE_DEVICES": "0", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
)
REPRO = """\
# IndexError: Target 4 is out of bounds.
# torch 2.13.0+cpu, cpu. Random values do as well. Special values are needed in: target.
# Exits 1 while the failure is there, 0 when it is gone, 2 when something else happens.
import sys

import torch

try:
    input = torch.zeros(1, 4)
    target = torch.tensor([4])
    torch.nn.functional.cross_entropy(input, target)
except BaseException as error:
    print(f"{type(error).__name__}: {error}")
    sys.exit(1 if type(error).__name__ == "IndexError" and "is out of bounds." in str(error) else 2)
print("the failure is gone")
"""


def frame(line: int, function: str, code: str, file: str = f"{ROOT}/train.py", owner: Any = "user") -> Frame:
    return Frame(file=file, line=line, function=function, code=code, owner=owner)


LOSS_LINE = frame(41, "main", "loss = criterion(model(features), label)")
LOSS_FRAMES = (
    frame(50, "<module>", "main()"),
    LOSS_LINE,
    frame(
        1789, "_call_impl", "return forward_call(*args, **kwargs)", f"{TORCH}/nn/modules/module.py", "torch"
    ),
    frame(
        3555, "cross_entropy", "return torch._C._nn.cross_entropy_loss(", f"{TORCH}/nn/functional.py", "torch"
    ),
)


def case(failure: Failure, **fields: Any) -> Case:
    """A case around a failure; everything else has its usual value."""
    values: dict[str, Any] = {
        "firstfault": "0.1.0",
        "id": "20261201-141931-a2a9",
        "created": 1796134771.0,
        "failure": failure,
        "progress": Progress(
            loader=0, pass_=0, batch=34, last_completed_step=34, steps_by_optimizer=(34,), handed_out=35
        ),
        "environment": CPU,
        "source": Source(
            script=f"{ROOT}/train.py",
            argv=("--epochs", "3"),
            cwd=ROOT,
            root=ROOT,
            commit="9f2c1d7e5b6a4c3d2e1f0a9b8c7d6e5f4a3b2c1d",
            modified=True,
            files=(SourceFile(path="train.py", digest="c" * 64, bytes=1486),),
        ),
        "loaders": (train_loader(),),
    }
    return Case(**{**values, **fields})


def train_loader(**fields: Any) -> Loader:
    values: dict[str, Any] = {
        "loader": 0,
        "name": "train_loader",
        "dataset": "ConcatDataset",
        "length": 1200,
        "batches": 75,
        "batch_size": 16,
        "workers": 0,
        "shuffled": True,
        "passes": 1,
        "parts": (("Tickets a", 900), ("Tickets b", 300)),
    }
    return Loader(**{**values, **fields})


def view(case: Case, findings: dict[str, found.Finding] | None = None, repro: str | None = None) -> CaseView:
    findings = findings or {}
    explain = findings.get("explain")
    if not isinstance(explain, found.Explain):
        explain = classify_case(case, findings)
    return CaseView(case=case, findings=findings, explain=explain, repro=repro)


# ---- one of each kind ------------------------------------------------------------------------------------------------


def index_error() -> CaseView:
    """A class index out of range on the CPU, with every step done and the fix proved."""
    indices = (727, 1086, 878, 1182, 995, 306, 470, 827, 1154, 683, 685, 101, 44, 590, 16, 313)
    draw = random.Random(0)
    failing = case(
        Failure(
            kind="raised",
            phase="forward",
            exception=ExceptionInfo(
                type="IndexError", message="Target 4 is out of bounds.", bases=("LookupError", "Exception")
            ),
            seen=LOSS_LINE,
            frames=LOSS_FRAMES,
            modules=("criterion (CrossEntropyLoss)",),
        ),
        batch=Batch(
            indices=indices,
            size=16,
            expected_size=16,
            leaves=(
                Leaf(
                    path="[0]", shape=(16, 12), dtype="float32", device="cpu", stride=(12, 1), digest="a" * 64
                ),
                Leaf(path="[1]", shape=(16,), dtype="int64", device="cpu", stride=(1,), digest="b" * 64),
            ),
            digest="d" * 64,
            kept=True,
        ),
    )
    element = found.Element(index=(3,), value=4, leaf="[1]", position=3, sample=1182, within=(), path="[1]")
    findings: dict[str, found.Finding] = {
        "replay": found.Replay(
            summary="the same failure came back from the batch alone, batch identical",
            outcome="same",
            same=4,
            runs=4,
            batch_identical=True,
            plan="the batch alone",
            plans_tried=("the batch alone",),
            signature="IndexError · Target <n> is out of bounds. · in train.py:main",
            reproduced_in_new_interpreter=True,
            seconds=3.2,
            trials=4,
        ),
        "locate": found.Locate(
            summary="aten.nll_loss_forward at train.py:41; target holds 4, allowed is [0, 4) or -100 (sample 1182)",
            operator="aten.nll_loss_forward",
            began=LOSS_LINE,
            module="criterion (CrossEntropyLoss)",
            arguments=(
                found.Argument(
                    name="self",
                    shape=(16, 4),
                    dtype="float32",
                    device="cpu",
                    stride=(4, 1),
                    minimum=-5.56,
                    maximum=-0.01,
                    origin="aten._log_softmax at train.py:41",
                ),
                found.Argument(
                    name="target",
                    shape=(16,),
                    dtype="int64",
                    device="cpu",
                    stride=(1,),
                    minimum=0.0,
                    maximum=4.0,
                    origin="batch[1]",
                ),
                found.Argument(name="weight", value="None"),
                found.Argument(name="ignore_index", value="-100"),
            ),
            violations=(
                found.Violation(
                    contract="class index",
                    argument="target",
                    allowed="[0, 4) or -100",
                    elements=(element,),
                    count=1,
                ),
            ),
            trail=(
                found.Operation(
                    operator="aten.addmm",
                    shapes=("float32[32]", "float32[16, 12]", "float32[12, 32]"),
                    line=LOSS_LINE,
                    module="model.0 (Linear)",
                ),
                found.Operation(
                    operator="aten.relu", shapes=("float32[16, 32]",), line=LOSS_LINE, module="model.1 (ReLU)"
                ),
                found.Operation(
                    operator="aten.addmm",
                    shapes=("float32[4]", "float32[16, 32]", "float32[32, 4]"),
                    line=LOSS_LINE,
                    module="model.2 (Linear)",
                ),
                found.Operation(
                    operator="aten._log_softmax",
                    shapes=("float32[16, 4]",),
                    line=LOSS_LINE,
                    module="criterion (CrossEntropyLoss)",
                ),
                found.Operation(
                    operator="aten.nll_loss_forward",
                    shapes=("float32[16, 4]", "int64[16]"),
                    line=LOSS_LINE,
                    module="criterion (CrossEntropyLoss)",
                ),
            ),
            method="operator trace",
            seconds=1.5,
            trials=1,
        ),
        "contrast": found.Contrast(
            summary="the batch stands apart by the maximum of [1]: 4, in the others at most 3",
            differences=(
                found.Difference(
                    feature="maximum of [1]",
                    failing="4",
                    others="2 to 3",
                    score=1.0,
                    number=4.0,
                    numbers=tuple(draw.choice((2.0, 3.0, 3.0)) for _ in range(74)),
                ),
                found.Difference(
                    feature="share of samples from Tickets b",
                    failing="44 %",
                    others="6 % to 38 %",
                    score=0.97,
                    number=0.44,
                    numbers=tuple(draw.triangular(0.06, 0.38) for _ in range(74)),
                ),
                found.Difference(
                    feature="mean of [0]",
                    failing="1.31",
                    others="0.88 to 1.72",
                    score=0.12,
                    number=1.31,
                    numbers=tuple(draw.gauss(1.3, 0.15) for _ in range(74)),
                ),
            ),
            branches=(),
            compared=74,
            seconds=2.0,
            trials=2,
        ),
        "shrink": found.Shrink(
            summary="sample 1182 suffices; repro.py has 15 lines and failed 3 of 3 times on its own",
            samples=(1182,),
            culprits=(1182,),
            sufficient="culprits",
            repro="repro.py",
            conditions=(
                found.Condition(
                    what="dtype float32 of input", needed=False, evidence="as float64: fails in the same way"
                ),
                found.Condition(
                    what="the values of input",
                    needed=False,
                    evidence="with random values in [0, 1): fails in the same way",
                ),
                found.Condition(
                    what="the values of target", needed=True, evidence="with zeros: goes through"
                ),
            ),
            lines=15,
            strategy="call",
            confirmed=3,
            others_seen=("TypeError · cross_entropy() missing <n> required positional argument: 'target'",),
            seconds=4.1,
            trials=20,
        ),
        "compare": found.Compare(
            summary="the same failure in 5 of 7 variants; no variant goes through",
            rows=(
                found.Row(change="float64", outcome="same"),
                found.Row(change="no workers", outcome="not applicable", reason="the loader has none"),
                found.Row(change="contiguous inputs", outcome="same"),
                found.Row(change="deterministic algorithms", outcome="same"),
                found.Row(change="one thread", outcome="same"),
                found.Row(change="labels clamped", outcome="passed", distance=3.2e-7),
                found.Row(
                    change="compiled",
                    outcome="other",
                    signature="InternalTorchDynamoError · in train.py:main",
                ),
            ),
            seconds=9.0,
            trials=14,
        ),
        "scan": found.Scan(
            summary="11 of 1,200 samples break the rule, all of them from Tickets b",
            rule="class index in [0, 4) or -100",
            scanned=1200,
            total=1200,
            breaches=11,
            samples=tuple(
                found.Breach(sample=number, value="4", source="Tickets b")
                for number in (907, 933, 961, 1002, 1040, 1077, 1101, 1118, 1149, 1182, 1196)
            ),
            by_source=(("Tickets a", 0, 900), ("Tickets b", 11, 300)),
            histogram=(("0", 251), ("1", 366), ("2", 373), ("3", 199), ("4", 11)),
            suggestion="Tickets b has no sample of class 0 and reaches 4: its classes are probably counted from 1.",
            seconds=0.8,
        ),
        "verify": found.Verify(
            summary="fixed: fails before, passes now; 5 of 5 checks hold",
            fixed=True,
            verdict="fixed",
            checks=(
                found.Check(
                    name="the failing batch",
                    before="IndexError, 5 of 5",
                    after="goes through, 5 of 5",
                    ok=True,
                ),
                found.Check(
                    name="the other samples that break the rule", before="11 fail", after="0 fail", ok=True
                ),
                found.Check(name="neighbouring batches", before="go through", after="go through", ok=True),
                found.Check(name="samples handed out", before="1,200", after="1,200", ok=True),
                found.Check(
                    name="outputs of unaffected batches", before="", after="equal, bit for bit", ok=True
                ),
                found.Check(name="a whole epoch", ok=None, reason="left out: longer than the budget"),
            ),
            fed=12,
            consumed=12,
            seconds=12.0,
            trials=15,
        ),
    }
    findings["explain"] = classify_case(failing, findings)
    return view(failing, findings, REPRO)


def device_assert() -> CaseView:
    """An embedding index out of range on CUDA, reported late, with consequences; nothing investigated yet."""
    text = (
        "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1553: indexSelectLargeIndex: block: [163,0,0], thread: [32,0,0] "
        "Assertion `srcIndex < srcSelectDimSize` failed."
    )
    seen = frame(88, "training_step", "loss = outputs.loss / accumulate")
    message = (
        "CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in "
        "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\n"
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    )
    failing = case(
        Failure(
            kind="raised",
            phase="forward",
            exception=ExceptionInfo(
                type="torch.AcceleratorError", message=message, bases=("RuntimeError", "Exception")
            ),
            seen=seen,
            frames=(frame(120, "<module>", "main()"), seen),
            modules=("model (LlamaForCausalLM)", "model.embed_tokens (Embedding)"),
            device_asserts=(
                DeviceAssert(
                    text=text,
                    file="Indexing.cu",
                    line=1553,
                    kernel="indexSelectLargeIndex",
                    block=(163, 0, 0),
                    thread=(32, 0, 0),
                    condition="srcIndex < srcSelectDimSize",
                    count=128,
                ),
            ),
            consequences=(
                Consequence(
                    exception=ExceptionInfo(
                        type="torch.AcceleratorError", message="CUDA error: device-side assert triggered"
                    ),
                    note="raised later, after the first failure had been handled by the script",
                ),
                Consequence(
                    exception=ExceptionInfo(
                        type="torch.AcceleratorError", message="CUDA error: device-side assert triggered"
                    )
                ),
                Consequence(
                    exception=ExceptionInfo(
                        type="torch.distributed.DistBackendError",
                        message="NCCL communicator was aborted on rank 3.",
                    )
                ),
            ),
        ),
        progress=Progress(
            loader=0,
            pass_=2,
            batch=517,
            last_completed_step=3108,
            steps_by_optimizer=(3108,),
            handed_out=12_949,
        ),
        batch=Batch(
            indices=tuple(f"doc-{number:06d}" for number in range(8)),
            size=8,
            expected_size=8,
            leaves=(
                Leaf(path="['input_ids']", shape=(8, 2048), dtype="int64", device="cpu", stride=(2048, 1)),
            ),
        ),
        loaders=(
            train_loader(
                dataset="PackedDocuments", length=49_728, batches=6216, batch_size=8, workers=4, passes=3
            ),
            train_loader(
                loader=1,
                name="val_loader",
                dataset="PackedDocuments",
                length=800,
                batches=100,
                batch_size=8,
                passes=2,
            ),
        ),
        environment=CUDA,
        rank=Rank(rank=3, world_size=8, local_rank=3),
    )
    return view(failing)


def out_of_memory() -> CaseView:
    """A long batch that doesn't fit on the device, with memory figures and the comparison done."""
    seen = frame(63, "forward", "scores = torch.einsum('bhqd,bhkd->bhqk', q, k)", f"{ROOT}/model.py")
    message = "CUDA out of memory. Tried to allocate 24.00 GiB. GPU 0 has a total capacity of 139.72 GiB of which 9.81 GiB is free."
    failing = case(
        Failure(
            kind="raised",
            phase="forward",
            exception=ExceptionInfo(
                type="torch.OutOfMemoryError", message=message, bases=("RuntimeError", "Exception")
            ),
            seen=seen,
            frames=(frame(120, "<module>", "main()"), seen),
            modules=("model (Encoder)", "model.layers.3.attention (Attention)"),
        ),
        progress=Progress(
            loader=0, pass_=1, batch=211, last_completed_step=835, steps_by_optimizer=(835,), handed_out=836
        ),
        batch=Batch(
            indices=tuple(range(4000, 4032)),
            size=32,
            expected_size=32,
            leaves=(Leaf(path="[0]", shape=(32, 7131), dtype="int64", device="cpu", stride=(7131, 1)),),
        ),
        loaders=(
            train_loader(dataset="Documents", length=20_000, batches=625, batch_size=32, workers=8, passes=2),
        ),
        environment=CUDA,
        memory=Memory(
            rss=9_400_000_000,
            peak_rss=9_900_000_000,
            available=41_000_000_000,
            device={
                "cuda:0": {
                    "allocated": 121_000_000_000,
                    "allocated_peak": 138_000_000_000,
                    "reserved": 139_000_000_000,
                }
            },
            history=tuple(
                (5 * n, int(3e9 + 6e9 * (1 - math.exp(-n / 20)) + 3e8 * math.sin(n / 3))) for n in range(90)
            ),
        ),
    )
    findings: dict[str, found.Finding] = {
        "replay": found.Replay(
            summary="the same failure came back from the batch alone in 2 of 3 runs",
            outcome="same",
            same=2,
            runs=3,
            plan="the batch alone",
            plans_tried=("the batch alone",),
            signature="torch.OutOfMemoryError · CUDA out of memory.",
            seconds=95.0,
            trials=3,
        ),
        "locate": found.Locate(
            summary="not located: the trial ran out of memory before the trace could be written",
            not_done="the trial ran out of memory before the trace could be written",
            seconds=30.0,
            trials=1,
        ),
        "contrast": found.Contrast(
            summary="the batch stands apart by the extent of [0] along 1: 7131, in the others at most 1024",
            differences=(
                found.Difference(
                    feature="extent of [0] along 1",
                    failing="7131",
                    others="180 to 1024",
                    score=1.0,
                    number=7131.0,
                    numbers=tuple(float(180 + (37 * n) % 845) for n in range(120)),
                ),
            ),
            branches=(found.Branch(file=f"{ROOT}/model.py", line=58, code="x = self.chunked(x)"),),
            compared=120,
        ),
    }
    return view(failing, findings)


def collate_in_worker() -> CaseView:
    """Samples of different shapes that can't be stacked, inside a worker."""
    message = (
        "Caught RuntimeError in DataLoader worker process 1.\nOriginal Traceback (most recent call last):\n"
        f'  File "{TORCH}/utils/data/_utils/worker.py", line 358, in _worker_loop\n    data = fetcher.fetch(index)\n'
        f'  File "{TORCH}/utils/data/_utils/collate.py", line 282, in collate_tensor_fn\n    return torch.stack(batch, 0, out=out)\n'
        "RuntimeError: stack expects each tensor to be equal size, but got [3, 16, 16] at entry 0 and [1, 16, 16] at entry 9\n"
    )
    loop = frame(31, "main", "for image, label in loader:")
    failing = case(
        Failure(
            kind="raised",
            phase="data",
            exception=ExceptionInfo(type="RuntimeError", message=message, bases=("Exception",)),
            seen=loop,
            frames=(frame(50, "<module>", "main()"), loop),
            fetch=WorkerFailure(stage="collate", worker=1),
        ),
        progress=Progress(
            loader=0, pass_=0, batch=15, last_completed_step=15, steps_by_optimizer=(15,), handed_out=15
        ),
        batch=Batch(
            indices=(167, 101, 181, 164, 178, 128, 46, 96, 53, 148, 65, 194),
            size=12,
            expected_size=12,
            worker=1,
        ),
        loaders=(train_loader(dataset="Photos", length=200, batches=17, batch_size=12, workers=2),),
    )
    findings: dict[str, found.Finding] = {
        "replay": found.Replay(
            summary="the same failure came back from the batch alone",
            outcome="same",
            same=4,
            runs=4,
            plan="the batch alone",
            trials=4,
            seconds=4.0,
        ),
        "shrink": found.Shrink(
            summary="sample 148 with any other",
            samples=(148, 53),
            culprits=(148,),
            sufficient="culprits_with_others",
            repro="repro.py",
            lines=12,
            confirmed=2,
            trials=9,
        ),
    }
    return view(
        failing, findings, "import torch\n\ntorch.stack([torch.zeros(3, 16, 16), torch.zeros(1, 16, 16)])\n"
    )


def nonfinite() -> CaseView:
    """A loss that diverges: the weights' history is the cause, not the batch."""
    seen = frame(24, "main", 'raise FloatingPointError(f"loss is {loss.item()} in epoch {epoch}")')
    failing = case(
        Failure(
            kind="raised",
            phase="forward",
            exception=ExceptionInfo(
                type="FloatingPointError",
                message="loss is nan in epoch 0",
                bases=("ArithmeticError", "Exception"),
            ),
            seen=seen,
            frames=(frame(34, "<module>", "main()"), seen),
        ),
        progress=Progress(
            loader=0, pass_=0, batch=6, last_completed_step=6, steps_by_optimizer=(6,), handed_out=7
        ),
        batch=Batch(
            indices=tuple(range(50)),
            size=50,
            expected_size=50,
            leaves=(Leaf(path="[0]", shape=(50, 5), dtype="float32", device="cpu"),),
        ),
        loaders=(train_loader(dataset="TensorDataset", length=500, batches=10, batch_size=50),),
    )
    findings: dict[str, found.Finding] = {
        "replay": found.Replay(
            summary="the same failure came back from everything before the batch",
            outcome="same",
            same=3,
            runs=3,
            plan="everything before",
            plans_tried=("the batch alone", "one batch each", "everything before"),
            batch_identical=True,
            trials=9,
            seconds=12.0,
        ),
        "locate": found.Locate(
            summary="aten.mse_loss at train.py:22 is the first operator with finite inputs and a non-finite output",
            operator="aten.mse_loss",
            began=frame(22, "main", "loss = nn.functional.mse_loss(model(a), b)"),
            trials=1,
        ),
        "shrink": found.Shrink(summary="the batch alone does not fail", sufficient="history", trials=4),
    }
    return view(failing, findings)


def setup() -> CaseView:
    """A failure before any loader is used."""
    seen = frame(12, "build", 'model.load_state_dict(torch.load("weights.pt"))')
    message = 'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "head.weight", "head.bias".\n\tUnexpected key(s) in state_dict: "fc.weight", "fc.bias".'
    return view(
        case(
            Failure(
                kind="raised",
                phase="setup",
                exception=ExceptionInfo(type="RuntimeError", message=message, bases=("Exception",)),
                seen=seen,
                frames=(seen,),
            ),
            progress=Progress(),
            loaders=(),
            source=Source(module="tickets.train", cwd=ROOT, root=ROOT),
        )
    )


def swallowed() -> CaseView:
    """The script skips what fails; something else fails at the end of the epoch."""
    seen = frame(19, "main", "logits = model(x)")
    return view(
        case(
            Failure(
                kind="raised",
                phase="forward",
                exception=ExceptionInfo(
                    type="IndexError",
                    message="index out of range in self",
                    bases=("LookupError", "Exception"),
                ),
                seen=seen,
                frames=(frame(35, "<module>", "main()"), seen),
                modules=("model (Sequential)", "model.0 (Embedding)"),
                swallowed=True,
                consequences=(
                    Consequence(
                        exception=ExceptionInfo(type="IndexError", message="index out of range in self"),
                        note="handled by the script",
                    ),
                    Consequence(
                        exception=ExceptionInfo(
                            type="RuntimeError", message="shape '[20, -1]' is invalid for input of size 288"
                        ),
                        seen=frame(
                            29, "main", "accuracy = (predictions.view(len(loader), -1) == 0).float().mean()"
                        ),
                        note="raised later, after the first failure had been handled by the script",
                    ),
                ),
            ),
            progress=Progress(
                loader=0,
                pass_=0,
                batch=14,
                last_completed_step=14,
                steps_by_optimizer=(18,),
                handed_out=20,
                unstepped=(
                    Unstepped(loader=0, pass_=0, batch=14, indices=(161, 249)),
                    Unstepped(loader=0, pass_=0, batch=17, indices=(91, 3)),
                ),
            ),
            batch=Batch(
                indices=(161, 249, 212, 160, 245, 145, 8, 72, 92, 53, 82, 207, 68, 263, 11, 40),
                size=16,
                expected_size=16,
                leaves=(Leaf(path="[0]", shape=(16, 7), dtype="int64", device="cpu", stride=(7, 1)),),
            ),
            loaders=(train_loader(dataset="TensorDataset", length=320, batches=20),),
        )
    )


HOSTILE = '<script>alert("1")</script><img src=x onerror=alert(2)>\x1b[2J\x1b]8;;http://evil.example\x07 [x](http://evil.example) `</code>` {{ 7*7 }} \u202eabc | @everyone'


def hostile() -> CaseView:
    """Markup, terminal controls and template syntax wherever text can be."""
    seen = frame(1, HOSTILE, HOSTILE, f"/tmp/{HOSTILE}.py")
    failing = case(
        Failure(
            kind="raised",
            phase="forward",
            exception=ExceptionInfo(type="ValueError", message=f"{HOSTILE}\n```\n# heading\n</pre>"),
            seen=seen,
            frames=(seen,),
            modules=(HOSTILE,),
            device_asserts=(DeviceAssert(text=HOSTILE),),
            consequences=(Consequence(exception=ExceptionInfo(type=HOSTILE, message=HOSTILE), note=HOSTILE),),
        ),
        batch=Batch(
            indices=(HOSTILE, "plain"),
            size=2,
            leaves=(Leaf(path=HOSTILE, shape=(2,), dtype=HOSTILE, device=HOSTILE),),
        ),
        loaders=(train_loader(name=HOSTILE, dataset=HOSTILE),),
        environment=Environment(
            python=HOSTILE,
            platform=HOSTILE,
            torch=HOSTILE,
            packages={HOSTILE: HOSTILE},
            flags={HOSTILE: HOSTILE},
            variables={HOSTILE: HOSTILE},
            devices=(Device(kind=HOSTILE, name=HOSTILE),),
        ),
        notes=(HOSTILE,),
    )
    element = found.Element(
        index=(0,),
        value=HOSTILE,
        leaf=HOSTILE,
        position=0,
        sample=HOSTILE,
        path=HOSTILE,
        changed_by=(HOSTILE,),
    )
    findings: dict[str, found.Finding] = {
        "replay": found.Replay(
            summary=HOSTILE,
            outcome="same",
            same=1,
            runs=1,
            plan=HOSTILE,
            signature=HOSTILE,
            other_signature=HOSTILE,
        ),
        "locate": found.Locate(
            summary=HOSTILE,
            operator=HOSTILE,
            began=seen,
            module=HOSTILE,
            arguments=(found.Argument(name=HOSTILE, value=HOSTILE),),
            violations=(
                found.Violation(
                    contract=HOSTILE,
                    argument=HOSTILE,
                    allowed=HOSTILE,
                    elements=(element,),
                    count=9,
                    note=HOSTILE,
                ),
            ),
            trail=(found.Operation(operator=HOSTILE, shapes=(HOSTILE,), line=seen, module=HOSTILE),),
        ),
        "explain": found.Explain(
            summary=HOSTILE,
            fault=HOSTILE,
            first_check=HOSTILE,
            avoid=HOSTILE,
            evidence=(HOSTILE,),
            also=(HOSTILE,),
        ),
        "contrast": found.Contrast(
            summary=HOSTILE,
            differences=(
                found.Difference(
                    feature=HOSTILE,
                    failing=HOSTILE,
                    others=HOSTILE,
                    score=1.0,
                    number=1.0,
                    numbers=(0.0, 2.0),
                ),
            ),
            branches=(found.Branch(file=HOSTILE, line=1, code=HOSTILE),),
        ),
        "shrink": found.Shrink(
            summary=HOSTILE,
            culprits=(HOSTILE,),
            sufficient="culprits",
            repro=HOSTILE,
            conditions=(found.Condition(what=HOSTILE, needed=True, evidence=HOSTILE),),
            others_seen=(HOSTILE,),
        ),
        "compare": found.Compare(
            summary=HOSTILE, rows=(found.Row(change=HOSTILE, outcome=HOSTILE, reason=HOSTILE),)
        ),
        "scan": found.Scan(
            summary=HOSTILE,
            rule=HOSTILE,
            breaches=1,
            samples=(found.Breach(sample=HOSTILE, value=HOSTILE, source=HOSTILE),),
            by_source=((HOSTILE, 1, 2),),
            histogram=((HOSTILE, 1),),
            suggestion=HOSTILE,
        ),
        "verify": found.Verify(
            summary=HOSTILE,
            checks=(found.Check(name=HOSTILE, before=HOSTILE, after=HOSTILE, reason=HOSTILE),),
            skipped=(HOSTILE,),
        ),
    }
    return view(failing, findings, f"# {HOSTILE}\n</pre></script>")


KINDS: dict[str, Callable[[], CaseView]] = {
    each.__name__: each
    for each in (
        index_error,
        device_assert,
        out_of_memory,
        collate_in_worker,
        nonfinite,
        setup,
        swallowed,
        hostile,
    )
}
