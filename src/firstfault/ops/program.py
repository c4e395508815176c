"""A straight-line program: named inputs, lines that use them, and the failure that it is expected to end in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from firstfault.ops.literal import literal

_NAME = re.compile(r"@\{(\w+)\}")


@dataclass(frozen=True)
class Line:
    """One statement.

    ``@{name}`` in the template stands for a variable or an input; ``names`` are further names that it uses as they
    are; ``makes`` are the names that it binds.
    """

    template: str
    makes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def uses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*_NAME.findall(self.template), *self.names]))


@dataclass(frozen=True)
class Program:
    """``inputs`` are tensors and plain values by name; plain values are written where they are used.

    ``recorded`` are values that intermediate names had in the recorded run: a name whose line is taken away becomes an
    input with that value. ``imports`` and ``definitions`` are source that the lines need.
    ``nonfinite`` names the value that must not come out finite, instead of an exception.
    """

    lines: tuple[Line, ...]
    inputs: dict[str, Any]
    recorded: dict[str, Any] = field(default_factory=dict)
    imports: tuple[str, ...] = ()
    definitions: str = ""
    nonfinite: str | None = None
    kind: str = "call"
    target: str = ""

    def without_unused(self) -> Program:
        """The same program without inputs that no line uses; names that lost their line become inputs."""
        made: set[str] = set()
        needed: dict[str, Any] = {}
        for line in self.lines:
            for name in line.uses:
                if name not in made and name not in needed:
                    needed[name] = self.inputs[name] if name in self.inputs else self.recorded[name]
            made.update(line.makes)
        return replace(self, inputs=needed)

    def with_input(self, name: str, value: Any) -> Program:
        return replace(self, inputs={**self.inputs, name: value})

    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: value for name, value in self.inputs.items() if isinstance(value, torch.Tensor)}

    def inlined(self) -> frozenset[str]:
        """Plain values that are written where they are used, instead of on a line of their own."""
        placed = {name for line in self.lines for name in _NAME.findall(line.template)}
        return frozenset(
            name
            for name, value in self.inputs.items()
            if name in placed and not isinstance(value, torch.Tensor)
        )

    def assignments(self) -> list[str]:
        """The inputs that have a line of their own. Raises NoLiteral when one can't be written."""
        inlined = self.inlined()
        return [f"{name} = {literal(value)}" for name, value in self.inputs.items() if name not in inlined]

    def statements(self) -> list[str]:
        plain = {name: literal(self.inputs[name]) for name in self.inlined()}
        written = []
        for line in self.lines:
            text = _NAME.sub(lambda found: plain.get(found[1], found[1]), line.template)
            written.append(f"{', '.join(line.makes)} = {text}" if line.makes else text)
        return written

    def all_imports(self) -> list[str]:
        """The imports that the program needs, torch first."""
        source = "\n".join([*self.assignments(), *self.statements(), self.definitions])
        found = [line for line in self.imports if line != "import torch"]
        if re.search(r"\bnumpy\.", source) and "import numpy" not in found:
            found.append("import numpy")
        needs_torch = re.search(r"\btorch\b", source) or self.nonfinite is not None
        return (["import torch"] if needs_torch else []) + found

    def text(self) -> str:
        """The program as plain source, for a trial: it simply raises what it raises."""
        lines = [*self.all_imports(), *self.assignments(), *self.definitions.splitlines(), *self.statements()]
        if self.nonfinite is not None:
            lines += nonfinite_check(self.nonfinite)
        return "\n".join(lines) + "\n"

    def size(self) -> tuple[int, int, int]:
        """For ordering: lines, elements, characters."""
        return len(self.lines), sum(tensor.numel() for tensor in self.tensors().values()), len(self.text())


def nonfinite_check(name: str) -> list[str]:
    """Statements that raise FloatingPointError with the kind of the first non-finite value, kinds kept apart."""
    return [
        f"if torch.isnan({name}).any(): raise FloatingPointError('the result is nan')",
        f"if ({name} == float('inf')).any(): raise FloatingPointError('the result is inf')",
        f"if ({name} == -float('inf')).any(): raise FloatingPointError('the result is -inf')",
    ]
