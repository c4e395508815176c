"""``repro.py``: a program that checks for itself whether the failure is there.

One file, torch alone where the user's own code needs nothing else; no artefact, no path, nothing random that isn't
seeded. It exits 1 while the failure is there, 0 when it is gone and 2 when something else happens.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from firstfault.case.findings import Condition
from firstfault.ops.program import Program, nonfinite_check
from firstfault.trial.signature import Signature

_WIDTH = 100
_TELLING = 16  # characters that make a stretch of a message unlikely to be met by chance
_FRAGMENT = 60  # characters of a message that are compared


def repro_text(
    program: Program,
    expected: Signature,
    message: str,
    conditions: Sequence[Condition],
    torch_version: str,
    backend: str,
) -> str:
    """The stand-alone script for a reduced program; ``message`` is what its exception says."""
    return render(
        message=message,
        imports=program.all_imports(),
        body=[
            *program.assignments(),
            *program.definitions.splitlines(),
            *program.statements(),
            *(nonfinite_check(program.nonfinite) if program.nonfinite is not None else []),
        ],
        expected=expected,
        notes=_notes(program, conditions),
        torch_version=torch_version,
        backend=backend,
    )


def render(
    *,
    imports: Sequence[str],
    body: Sequence[str],
    expected: Signature,
    message: str,
    notes: Sequence[str],
    torch_version: str,
    backend: str,
) -> str:
    """The script around a body: what it expects, and its exit codes."""
    said = (message.strip().splitlines() or [""])[0]
    head = [
        f"{expected.type}: {said}" if said else expected.type,
        f"torch {torch_version}, {backend}. {' '.join(notes)}".rstrip(),
        "Exits 1 while the failure is there, 0 when it is gone, 2 when something else happens.",
    ]
    comment = [
        f"# {line}"
        for text in head
        for line in textwrap.wrap(text, _WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    ]
    type_ = expected.type.rsplit(".", 1)[-1]
    fragment = message_fragment(expected.message)
    condition = f'type(error).__name__ == "{type_}"' + (
        f" and {fragment!r} in str(error)" if fragment else ""
    )
    lines = [
        *comment,
        "import sys",
        *sorted(
            line
            for line in imports
            if line.startswith("import ") and line not in ("import torch", "import sys")
        ),
        *sorted(line for line in imports if not line.startswith("import ")),
        *(["", "import torch"] if "import torch" in imports else []),
        "",
        "try:",
        *textwrap.indent("\n".join(body), "    ").splitlines(),
        "except BaseException as error:",
        '    print(f"{type(error).__name__}: {error}")',
        f"    sys.exit(1 if {condition} else 2)",
        'print("the failure is gone")',
    ]
    return "\n".join(lines) + "\n"


def message_fragment(masked: str) -> str:
    """A stretch of a masked message that never varies: the first telling one, else the longest."""
    first_line = (masked.splitlines() or [""])[0]
    parts = [part.strip() for part in re.split(r"<(?:n|address|folder|inf)>/?", first_line)]
    telling = [part for part in parts if len(part) >= _TELLING]
    return (telling[0] if telling else max(parts, key=len, default=""))[:_FRAGMENT]


def _notes(program: Program, conditions: Sequence[Condition]) -> list[str]:
    values = [each for each in conditions if each.what.startswith("the values of")]
    floats = [each for each in values if "random" in each.evidence]
    notes = []
    if floats:
        notes.append(
            "Random values do as well."
            if not any(each.needed for each in floats)
            else "Random values in [0, 1) do not do."
        )
    special = [each.what.removeprefix("the values of ") for each in values if each.needed]
    notes.append(
        f"Special values are needed in: {', '.join(special)}."
        if special
        else "No special values are needed."
        if values
        else ""
    )
    return [note for note in notes if note]
