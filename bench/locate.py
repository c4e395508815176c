"""What a located step costs, and how far elements are followed.

Run: ``python bench/locate.py [FOLDER]``. The first table times a training step bare, under the locating instrument, under
``torch.autograd.detect_anomaly`` and under torch's ``DebugMode``, one after the other in each round, and gives medians of
the rounds' ratios to the bare step with their quartiles. To reach: at most 10 times bare, and no dearer than DebugMode.

The second table runs the scripts of FOLDER under the trace and tells, for each operator that ran, how its elements are
followed back.
"""

from __future__ import annotations

import contextlib
import os
import random
import runpy
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from torch import nn
from torch.utils._debug_mode import DebugMode

from firstfault.ops import compat, influence, movement
from firstfault.ops.again import results_of
from firstfault.ops.locate import Finder
from firstfault.ops.memory import has_address
from firstfault.ops.provenance import is_fresh
from firstfault.ops.trace import Record, Trace, tensors_in

ROUNDS = 40
WARM_UP = 3
SECONDS = 120  # for one script of the folder

Step = Callable[[], None]


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.embedding = nn.Embedding(100, 64)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(64, 10)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.encoder(self.embedding(ids)).mean(1))


def _mlp() -> tuple[nn.Module, torch.Tensor]:
    layers = (nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return nn.Sequential(*layers), torch.randn(32, 64)


def _transformer() -> tuple[nn.Module, torch.Tensor]:
    return Transformer(), torch.randint(0, 100, (16, 32))


def _conv() -> tuple[nn.Module, torch.Tensor]:
    first = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(16, 10)), torch.randn(16, 3, 32, 32)


def step_of(make: Callable[[], tuple[nn.Module, torch.Tensor]]) -> Step:
    """A training step with SGD and momentum."""
    model, x = make()
    y = torch.randint(0, 10, (len(x),))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def locating() -> Any:
    finder = Finder(Path(tempfile.gettempdir()))
    finder.batch_handed_out((), None)
    return finder.trace


WAYS: dict[str, Callable[[], Any]] = {
    "bare": contextlib.nullcontext,
    "located": locating,
    "detect_anomaly": torch.autograd.detect_anomaly,
    "DebugMode": DebugMode,
}


def timed(step: Step, way: Callable[[], Any]) -> float:
    with way():
        begun = time.perf_counter()
        step()
        return time.perf_counter() - begun


def costs(step: Step) -> dict[str, list[float]]:
    """Seconds of each round by way; the order is drawn anew in each round."""
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    for way in WAYS.values():
        for _ in range(WARM_UP):
            timed(step, way)
    for _ in range(ROUNDS):
        for name in random.sample(list(WAYS), len(WAYS)):
            found[name].append(timed(step, WAYS[name]))
    return found


def print_costs() -> None:
    print(
        f"{'step':<12} {'operators':>9} {'bare, ms':>9}  "
        + "  ".join(f"{name:>20}" for name in WAYS if name != "bare")
    )
    for name, make in {"mlp": _mlp, "transformer": _transformer, "conv net": _conv}.items():
        torch.manual_seed(0)
        step = step_of(make)
        with Trace() as trace:
            step()
        found = costs(step)
        cells = []
        for way in WAYS:
            if way != "bare":
                ratios = [one / bare for one, bare in zip(found[way], found["bare"], strict=True)]
                low, _, high = quantiles(ratios, n=4)
                cells.append(f"x{median(ratios):5.1f} ({low:.1f} to {high:.1f})".rjust(20))
        print(f"{name:<12} {len(trace.records):>9} {1000 * median(found['bare']):>9.2f}  " + "  ".join(cells))


# ---- how far elements are followed ---------------------------------------------------------------------------------


def how_followed(record: Record) -> str:
    """How an element of the operator's result is followed back."""
    results = [tensor for tensor in results_of(record) if has_address(tensor) and tensor.numel()]
    given = tensors_in([*record.args, *record.kwargs.values()])
    if not record.facts.makes and not record.written:
        return "same memory"
    if not given or is_fresh(record):
        return "made here"
    if not results:
        return "no elements"
    if movement.keeps_places(record):
        return "same place"
    movements = movement.Movements()
    places = [(0,) * results[0].ndim, tuple(extent - 1 for extent in results[0].shape)]
    if any(movements.taken_from(record, results[0], place) for place in places):
        return "moved, by labels"
    if movement.chosen(record, places[0]) or movement.indices_behind(record, results[0], places[0]):
        return "chosen or looked up"
    number = next(n for n, each in enumerate(results_of(record)) if each is results[0])
    marked = [(number, torch.ones(results[0].shape, dtype=torch.bool))]
    if influence.derivatives(record, marked) is not None:
        return "mixed, to the sample"
    return "not followed"


def operators_of(script: str) -> None:
    """Run a script under the trace and print, for each operator, how it is followed. Runs in a process of its own."""
    seen: dict[str, str] = {}

    def note(record: Record) -> None:
        name = str(record.operator)
        if name not in seen and record.name.startswith("aten."):
            seen[name] = compat.undisturbed(lambda: how_followed(record))

    sys.argv = [script]
    with contextlib.suppress(BaseException), contextlib.redirect_stdout(sys.stderr), Trace(after=note):
        runpy.run_path(script, run_name="__main__")
    for name, how in seen.items():
        print(f"{name}\t{how}")


def print_following(folder: Path) -> None:
    found: dict[str, str] = {}
    for script in sorted(folder.glob("*.py")):
        with tempfile.TemporaryDirectory() as scratch:
            done = subprocess.run(
                [
                    sys.executable,
                    "-W",
                    "ignore",
                    os.path.abspath(__file__),
                    "--operators-of",
                    str(script.absolute()),
                ],
                cwd=scratch,
                capture_output=True,
                text=True,
                timeout=SECONDS,
            )
        found.update(line.split("\t") for line in done.stdout.splitlines() if "\t" in line)
    counted = Counter(found.values())
    followed = len(found) - counted["not followed"]
    print(
        f"operators with provenance / operators in the trace of the scripts in {folder.name}/: {followed} / {len(found)}"
    )
    for how, count in counted.most_common():
        print(f"  {how:<22} {count:>4}")
    if counted["not followed"]:
        print(
            "  not followed: "
            + ", ".join(sorted(name for name, how in found.items() if how == "not followed"))
        )


def main() -> None:
    if sys.argv[1:2] == ["--operators-of"]:
        operators_of(sys.argv[2])
        return
    torch.set_num_threads(1)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"torch {torch.__version__}, {os.cpu_count()} cores, load {load}, {ROUNDS} rounds")
    print_costs()
    if len(sys.argv) > 1:
        print()
        print_following(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
