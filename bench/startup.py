"""What ``firstfault run`` adds to the start of a script: ``python bench/startup.py``.

The same empty script, and one that imports torch, plain and under firstfault, in turn in one run; medians of the paired
differences. What torch's own import costs is in both.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 15
SCRIPTS = {"nothing": "pass\n", "torch": "import torch\n"}


def seconds(command: list[str], folder: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        print(f"{'script':<10}{'plain ms':>10}{'run ms':>10}{'added ms':>10}   spread of what is added")
        for name, source in SCRIPTS.items():
            (folder / "script.py").write_text(source)
            plain, run = (
                [sys.executable, "script.py"],
                [sys.executable, "-m", "firstfault", "run", "script.py"],
            )
            seconds(run, folder)
            rounds = ROUNDS if name == "nothing" else ROUNDS // 3
            pairs = [(seconds(plain, folder), seconds(run, folder)) for _ in range(rounds)]
            added = sorted((after - before) * 1000 for before, after in pairs)
            before, after = (statistics.median(each) * 1000 for each in zip(*pairs, strict=True))
            print(
                f"{name:<10}{before:>10.0f}{after:>10.0f}{statistics.median(added):>10.0f}   {added[0]:.0f} to {added[-1]:.0f}"
            )


if __name__ == "__main__":
    main()
