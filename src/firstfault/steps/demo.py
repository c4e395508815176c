"""The whole road on a built-in failing script: two annotation sources, of which one counts its classes from 1."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from firstfault.errors import UsageError

SCRIPT = Path(__file__).with_name("demo_script.py")


def demo(folder: Path) -> int:
    """Write the script into a folder, run it under firstfault, and investigate the case. Returns an exit code."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        script = folder / "train.py"
        script.write_text(SCRIPT.read_text())
    except OSError as error:
        raise UsageError(
            f"{folder} can't be written: {error.strerror or error}; choose another folder with --into"
        ) from None
    command = [sys.executable, "-m", "firstfault"]
    print("$ firstfault run train.py", flush=True)
    ran = subprocess.run([*command, "run", "train.py"], cwd=folder)
    print("$ firstfault investigate", flush=True)
    investigated = subprocess.run([*command, "investigate"], cwd=folder)
    return 0 if ran.returncode == 1 and investigated.returncode == 0 else 3
