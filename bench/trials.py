"""What a trial costs: forked from the zygote, in a new interpreter, and several side by side.

Run: ``python bench/trials.py``. Prints medians; the machine's load beside them, because they follow it.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import median

from firstfault.trial.engine import Engine, usable_cores
from firstfault.trial.plan import SourcePlan

RUNS = 20
INTERPRETER_RUNS = 3  # seconds each
PROGRAMS = {
    "nothing": "",
    "one failing loss": "import torch\ntorch.nn.functional.cross_entropy(torch.zeros(3, 4), torch.tensor([0, 1, 4]))",
    "a step of AdamW": (
        "import torch\nmodel = torch.nn.Linear(64, 4)\noptimizer = torch.optim.AdamW(model.parameters())\n"
        "model(torch.zeros(32, 64)).sum().backward()\noptimizer.step()"
    ),
}


def milliseconds(engine: Engine, text: str, runs: int, *, fresh: bool = False) -> float:
    """Median wall time of a trial, as the asking process sees it."""
    times = []
    for number in range(runs):
        plan = SourcePlan(text=text, new_interpreter=fresh, repeat=number)
        begun = time.perf_counter()
        engine.run(plan)
        times.append(time.perf_counter() - begun)
    return 1000 * median(times)


def per_second(workspace: Path, jobs: int) -> float:
    """Trials of a failing loss a second, with so many in flight."""
    with Engine(workspace, jobs=jobs) as engine:
        engine.run(SourcePlan(text=""))  # the zygote's imports are not counted
        plans = [SourcePlan(text=PROGRAMS["one failing loss"], repeat=number) for number in range(2 * RUNS)]
        begun = time.perf_counter()
        engine.run_all(plans)
        return len(plans) / (time.perf_counter() - begun)


def main() -> None:
    print(f"{usable_cores()} usable cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        with Engine(Path(folder), jobs=1) as engine:
            engine.run(SourcePlan(text=""))
            print(f"{'until the first trial (imports)':34} {1000 * (time.perf_counter() - begun):8.0f} ms")
            for name, text in PROGRAMS.items():
                forked = milliseconds(engine, text, RUNS)
                fresh = milliseconds(engine, text, INTERPRETER_RUNS, fresh=True)
                print(
                    f"{name:20} forked {forked:6.0f} ms, new interpreter {fresh:6.0f} ms, {fresh / forked:4.0f} times as long"
                )
        for jobs in sorted({1, 2, usable_cores()}):
            print(f"{jobs} in flight: {per_second(Path(folder), jobs):5.0f} trials/s")


if __name__ == "__main__":
    main()
