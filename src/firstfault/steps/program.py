"""From a captured failure to the smallest program that still fails for the same reason.

Forms are tried from the most telling to the most general. Each candidate is a program's text, run in a fresh process and
judged by its signature. Then lines are taken away, dimensions of equal extent are cut together, values moved towards
zero; and in the end each trait that was kept is taken away once, to learn whether it matters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch

from firstfault.case.findings import Condition
from firstfault.ops.capture import Form
from firstfault.ops.literal import NoLiteral
from firstfault.ops.program import Line, Program
from firstfault.record.values import load_values
from firstfault.trial.engine import Engine
from firstfault.trial.outcome import Outcome
from firstfault.trial.plan import SourcePlan
from firstfault.trial.reduce import smallest_number, smallest_subset
from firstfault.trial.signature import Signature, same, signature, unwrap_worker

MAX_EXTENT = 4_096  # of a dimension whose positions are searched one by one
_MAX_VALUES = 64  # elements of an integer tensor that are moved towards zero one by one
_SECONDS = 30.0  # for one candidate


@dataclass(frozen=True)
class Smallest:
    """The result. ``others_seen`` are signatures of other failures met on the way."""

    program: Program
    signature: Signature
    message: str
    conditions: tuple[Condition, ...]
    others_seen: tuple[str, ...]


class Judge:
    """Asks whether programs fail as expected; the expectation is what the recorded failure says."""

    def __init__(self, engine: Engine, expected: Signature, left: Callable[[], bool]) -> None:
        self.engine = engine
        self.expected = expected
        self.left = left
        self.others: dict[str, int] = {}

    def accepts(self, outcome: Outcome) -> bool:
        if outcome.ended != "failed" or outcome.failure is None:
            return False
        found = signature(outcome.failure)
        if same(found, self.expected, "message"):
            return True
        self.others[str(found)] = self.others.get(str(found), 0) + 1
        return False

    def outcome(self, program: Program) -> Outcome | None:
        try:
            return self.engine.run(SourcePlan(text=program.text(), seconds=_SECONDS))
        except NoLiteral:
            return None

    def fails(self, program: Program) -> bool:
        outcome = self.outcome(program)
        return outcome is not None and self.accepts(outcome)

    def first(self, programs: Sequence[Program]) -> int | None:
        """The first of several programs, in order, that fails as expected."""
        plans, numbers = [], []
        for number, program in enumerate(programs):
            try:
                plans.append(SourcePlan(text=program.text(), seconds=_SECONDS))
                numbers.append(number)
            except NoLiteral:
                continue
        found = self.engine.first(plans, self.accepts)
        return None if found is None else numbers[found[0]]


def smallest_program(
    folder: Path, expected: Signature, engine: Engine, left: Callable[[], bool] = lambda: True
) -> Smallest | None:
    """The smallest program for the forms captured in a trial's folder; None when no form fails on its own."""
    for program in _programs(folder):
        if program.nonfinite is None and expected.nonfinite and _carries_nonfinite(program):
            continue  # what is to be explained is already in its inputs
        goal = expected if program.nonfinite is None else None
        judge = Judge(engine, goal or expected, left)
        started = _started(program, judge, pinned=goal is not None)
        if started is None:
            continue
        reduced = _reduced(started, judge)
        conditions = tuple(_conditions(reduced, judge))
        others = tuple(sorted(judge.others, key=lambda each: -judge.others[each]))
        last = judge.outcome(reduced)
        said = (
            unwrap_worker("", last.failure.exception.message)[1]
            if last and last.failure and last.failure.exception
            else ""
        )
        return Smallest(reduced, judge.expected, said, conditions, others)
    return None


def _carries_nonfinite(program: Program) -> bool:
    """Whether an input holds a NaN or an infinity."""
    values = list(program.inputs.values())
    tensors = [value for value in values if isinstance(value, torch.Tensor) and value.is_floating_point()]
    floats = [value for value in values if isinstance(value, float)]
    return any(not bool(torch.isfinite(tensor).all()) for tensor in tensors) or any(
        not math.isfinite(value) for value in floats
    )


def _programs(folder: Path) -> Iterator[Program]:
    try:
        forms = msgspec.json.decode((folder / "forms.json").read_bytes(), type=list[Form])
    except (OSError, msgspec.MsgspecError):
        return
    for number, form in enumerate(forms):
        values = load_values(folder, f"form-{number}")
        program = Program(
            lines=tuple(
                Line(template, makes, form.names if n == 0 else ())
                for n, (template, makes) in enumerate(form.lines)
            ),
            inputs={name: values[name] for name in form.inputs},
            recorded={name: values[name] for name in form.recorded},
            imports=form.imports,
            definitions=form.definitions,
            nonfinite=form.nonfinite,
            kind=form.kind,
            target=form.target,
        )
        yield _flattened(program)


def _flattened(program: Program) -> Program:
    """Tensors inside of lists and dicts become inputs of their own, so that they can be cut too."""
    inputs: dict[str, Any] = {}
    lines = program.lines
    for name, value in program.inputs.items():
        if (
            isinstance(value, (list, tuple, dict))
            and _holds_tensor(value)
            and all(name in line.names for line in lines[:1])
        ):
            text = _container_text(name, value, inputs)
            lines = (
                Line(text, (name,)),
                *(replace(line, names=(*(n for n in line.names if n != name), name)) for line in lines),
            )
        else:
            inputs[name] = value
    return replace(program, inputs=inputs, lines=lines)


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return any(_holds_tensor(item) for item in items)


def _container_text(name: str, value: Any, inputs: dict[str, Any]) -> str:
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(
                f"{key!r}: {_container_text(f'{name}_{n}', item, inputs)}"
                for n, (key, item) in enumerate(value.items())
            )
            + "}"
        )
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_container_text(f"{name}_{n}", item, inputs) for n, item in enumerate(value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)" if len(value) == 1 else f"({inner})"
    inputs[name] = value
    return f"@{{{name}}}"


# ---- starting --------------------------------------------------------------------------------------------------------


def _started(program: Program, judge: Judge, *, pinned: bool) -> Program | None:
    """The program as captured, or with its large tensors filled in, whichever fails as expected."""
    for candidate in _fillings(program):
        outcome = judge.outcome(candidate)
        if outcome is None or outcome.ended != "failed" or outcome.failure is None:
            continue
        if not pinned:
            judge.expected = signature(outcome.failure)
            return candidate if judge.expected.type == "FloatingPointError" else None
        if judge.accepts(outcome):
            return candidate
    return None


def _fillings(program: Program) -> Iterator[Program]:
    """All values as they were; then every float tensor as zeros; then as ones."""
    yield program
    for value in (0.0, 1.0):
        yield _with_floats(program, value)


def _with_floats(program: Program, value: float, only: str | None = None) -> Program:
    for name, tensor in program.tensors().items():
        if tensor.is_floating_point() and only in (None, name):
            program = program.with_input(name, _like(tensor, torch.full_like(tensor, value)))
    return program


def _like(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """New values with the old tensor's strides and requires_grad."""
    with torch.no_grad():
        made = (
            torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            if not _overlaps(tensor)
            else values
        )
        if made is not values:
            made.copy_(values)
    return made.detach().requires_grad_(tensor.requires_grad)


def _overlaps(tensor: torch.Tensor) -> bool:
    return (
        any(stride == 0 and extent > 1 for stride, extent in zip(tensor.stride(), tensor.shape, strict=True))
        or tensor.device.type != "cpu"
    )


# ---- reducing --------------------------------------------------------------------------------------------------------


def _reduced(program: Program, judge: Judge) -> Program:
    """All passes to a fixpoint, or until the budget is spent."""
    before: tuple[int, int, int] | None = None
    while judge.left() and before != program.size():
        before = program.size()
        for reduce in (
            _fewer_lines,
            _bypassed_lines,
            _plain_floats,
            _smaller_dimensions,
            _smaller_integers,
            _simpler_floats,
            _fewer_arguments,
        ):
            if judge.left():
                program = reduce(program, judge)
    return program.without_unused()


def _fewer_lines(program: Program, judge: Judge) -> Program:
    """Take lines away, last first; the names that they made become inputs with the recorded values."""
    if len(program.lines) < 2:
        return program

    def kept(numbers: Sequence[int]) -> Program | None:
        candidate = replace(program, lines=tuple(program.lines[n] for n in numbers))
        try:
            return candidate.without_unused()
        except KeyError:
            return None

    last = len(program.lines) - 1

    def first(candidates: Sequence[list[int]]) -> int | None:
        built = [(n, kept([*numbers, last])) for n, numbers in enumerate(candidates)]
        usable = [(n, candidate) for n, candidate in built if candidate is not None]
        found = judge.first([candidate for _, candidate in usable])
        return None if found is None else usable[found][0]

    numbers = smallest_subset(range(last), first, left=judge.left)
    if len(numbers) == 1 and first([[]]) == 0:
        numbers = []
    return kept([*numbers, last]) or program


def _bypassed_lines(program: Program, judge: Judge) -> Program:
    """Let one of a line's tensors stand for its result, last line first: what an operator did in between may not matter."""
    for number in range(len(program.lines) - 2, -1, -1):
        built = (_bypassed(program, number, name) for name in program.lines[number].uses)
        candidates = [each for each in built if each is not None]
        found = judge.first(candidates) if candidates and judge.left() else None
        program = program if found is None else candidates[found]
    return program


def _bypassed(program: Program, number: int, stand_in: str) -> Program | None:
    line = program.lines[number]
    tensors = {name for each in program.lines[:number] for name in each.makes} | set(program.tensors())
    if len(line.makes) != 1 or stand_in not in tensors or line.makes[0] == stand_in:
        return None
    old, new = f"@{{{line.makes[0]}}}", f"@{{{stand_in}}}"
    rest = [replace(each, template=each.template.replace(old, new)) for each in program.lines[number + 1 :]]
    return replace(program, lines=(*program.lines[:number], *rest)).without_unused()


def _plain_floats(program: Program, judge: Judge) -> Program:
    """Zeros instead of the recorded floats, all at once or one tensor after the other; else ones."""
    names = [
        name
        for name, tensor in program.tensors().items()
        if tensor.is_floating_point() and _several_values(tensor)
    ]
    if not names:
        return program
    whole = [_with_floats(program, value) for value in (0.0, 1.0)]
    found = judge.first(whole)
    if found is not None:
        return whole[found]
    for name in names:
        single = [_with_floats(program, value, name) for value in (0.0, 1.0)]
        found = judge.first(single)
        program = program if found is None else single[found]
    return program


def _several_values(tensor: torch.Tensor) -> bool:
    return tensor.numel() > 0 and not bool((tensor == tensor.flatten()[0]).all())


def _smaller_dimensions(program: Program, judge: Judge) -> Program:
    """Cut dimensions of equal extent together, with the plain numbers that equal them; then each alone."""
    extents = sorted(
        {n for tensor in program.tensors().values() for n in tensor.shape if 1 < n <= MAX_EXTENT},
        reverse=True,
    )
    for extent in extents:
        places = [
            (name, d)
            for name, tensor in program.tensors().items()
            for d, n in enumerate(tensor.shape)
            if n == extent
        ]
        numbers = [name for name, value in program.inputs.items() if type(value) is int and value == extent]
        groups = [(places, numbers), (places, []), *(([place], []) for place in places if len(places) > 1)]
        for group, plain in groups:
            cut = _cut(program, judge, group, plain, extent)
            if cut is not None:
                program = cut
                break
    return program


def _cut(
    program: Program, judge: Judge, places: list[tuple[str, int]], numbers: list[str], extent: int
) -> Program | None:
    """The program with fewer positions along these dimensions, if any can be done without."""

    def with_positions(kept: Sequence[int]) -> Program:
        candidate = program
        for name in dict.fromkeys(name for name, _ in places):
            tensor = program.inputs[name]
            for dimension in (d for n, d in places if n == name):
                tensor = _selected(tensor, dimension, kept)
            candidate = candidate.with_input(name, tensor)
        for name in numbers:
            candidate = candidate.with_input(name, len(kept))
        return candidate

    def first(candidates: Sequence[list[int]]) -> int | None:
        return judge.first([with_positions(kept) for kept in candidates])

    quick: list[list[int]] = [[0], [extent - 1]]
    found = first(quick)
    if found is not None:
        return with_positions(quick[found])
    kept = smallest_subset(range(extent), first, left=judge.left)
    return with_positions(kept) if len(kept) < extent else None


def _selected(tensor: torch.Tensor, dimension: int, kept: Sequence[int]) -> torch.Tensor:
    """Fewer positions along one dimension, with the order of the strides kept."""
    with torch.no_grad():
        if tensor.stride(dimension) == 0:
            return tensor.narrow(dimension, 0, len(kept)).requires_grad_(tensor.requires_grad)
        order = sorted(range(tensor.ndim), key=lambda d: -tensor.stride(d))
        chosen = tensor.detach().permute(order).index_select(order.index(dimension), torch.tensor(list(kept)))
        back = chosen.contiguous().permute([order.index(d) for d in range(tensor.ndim)])
    return back.detach().requires_grad_(tensor.requires_grad)


def _smaller_integers(program: Program, judge: Judge) -> Program:
    """Move integers towards zero: whole tensors, then single elements and plain numbers down to the border."""
    for name, tensor in program.tensors().items():
        if (
            tensor.is_floating_point()
            or tensor.dtype == torch.bool
            or tensor.is_complex()
            or tensor.numel() == 0
            or not bool(tensor.any())
        ):
            continue
        zeros = program.with_input(name, _like(tensor, torch.zeros_like(tensor)))
        if judge.fails(zeros):
            program = zeros
            continue
        for position in torch.nonzero(tensor)[:_MAX_VALUES].tolist():
            if judge.left():
                program = _smaller_element(program, judge, name, tuple(position))
    for name, value in list(program.inputs.items()):
        if type(value) is int and value > 1 and judge.left():
            program = _smaller_number(program, judge, name, value)
    return program


def _smaller_number(program: Program, judge: Judge, name: str, value: int) -> Program:
    smaller = smallest_number(0, value, lambda number: judge.fails(program.with_input(name, number)))
    return program.with_input(name, smaller)


def _smaller_element(program: Program, judge: Judge, name: str, position: tuple[int, ...]) -> Program:
    tensor = program.inputs[name]
    value = int(tensor[position])

    def with_value(number: int) -> Program:
        changed = tensor.clone()
        changed[position] = number
        return program.with_input(name, changed)

    sign = 1 if value > 0 else -1
    magnitude = smallest_number(0, abs(value), lambda n: judge.fails(with_value(sign * n)))
    return with_value(sign * magnitude) if magnitude != abs(value) else program


def _simpler_floats(program: Program, judge: Judge) -> Program:
    """The fewest digits that still fail, for tensors whose values matter."""
    for name, tensor in program.tensors().items():
        if not tensor.is_floating_point() or not bool(torch.isfinite(tensor).all()) or not bool(tensor.any()):
            continue
        candidates = [
            program.with_input(name, _like(tensor, _rounded(tensor, digits))) for digits in (1, 2, 3)
        ]
        candidates = [each for each in candidates if not torch.equal(each.inputs[name], tensor)]
        found = judge.first(candidates) if candidates else None
        program = program if found is None else candidates[found]
    return program


def _rounded(tensor: torch.Tensor, digits: int) -> torch.Tensor:
    flat = [float(f"{value:.{digits}g}") for value in tensor.detach().flatten().tolist()]
    return torch.tensor(flat, dtype=tensor.dtype).reshape(tensor.shape)


def _fewer_arguments(program: Program, judge: Judge) -> Program:
    """Leave out arguments that the failure doesn't need: the last ones together, then named ones singly."""
    for number in range(len(program.lines)):
        shrinking = True
        while shrinking and judge.left():
            template = program.lines[number].template
            candidates = [_with_template(program, number, shorter) for shorter in _shorter_calls(template)]
            found = judge.first(candidates) if candidates else None
            shrinking = found is not None
            program = program if found is None else candidates[found]
    return program


def _with_template(program: Program, number: int, template: str) -> Program:
    lines = (
        *program.lines[:number],
        replace(program.lines[number], template=template),
        *program.lines[number + 1 :],
    )
    return replace(program, lines=lines).without_unused()


def _shorter_calls(template: str) -> Iterator[str]:
    """The call with fewer arguments: cut from the back, most first; then without one named argument each."""
    start = template.find("(")
    if not re.fullmatch(r"[\w.@{}]+\(.*\)", template, re.DOTALL):
        return
    arguments = _split(template[start + 1 : -1])
    named = [number for number, argument in enumerate(arguments) if re.match(r"\w+=[^=]", argument)]
    kept = [arguments[:count] for count in range(len(arguments))]
    kept += [arguments[:number] + arguments[number + 1 :] for number in named[:-1]]
    yield from (f"{template[:start]}({', '.join(each)})" for each in kept)


def _split(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [*parts, current.strip()] if current.strip() else parts


# ---- conditions ------------------------------------------------------------------------------------------------------


def _conditions(program: Program, judge: Judge) -> Iterator[Condition]:
    """Each trait that is left, taken away once."""
    for what, changed, evidence in _changes(program):
        outcome = judge.outcome(changed) if judge.left() else None
        if outcome is None or outcome.ended in ("invalid", "lost", "timed_out"):
            continue
        failed = judge.accepts(outcome)
        result = (
            "fails in the same way"
            if failed
            else "goes through"
            if outcome.ended == "passed"
            else "fails differently"
        )
        yield Condition(what=what, needed=not failed, evidence=f"{evidence}: {result}")


def _changes(program: Program) -> Iterator[tuple[str, Program, str]]:
    for name, tensor in program.tensors().items():
        if tensor.is_floating_point():
            other = torch.float64 if tensor.dtype == torch.float32 else torch.float32
            yield (
                f"dtype {_short(tensor.dtype)} of {name}",
                program.with_input(name, tensor.detach().to(other).requires_grad_(tensor.requires_grad)),
                f"as {_short(other)}",
            )
            if tensor.numel():
                random = (
                    torch.rand(tensor.shape, generator=torch.Generator().manual_seed(0))
                    .round(decimals=2)
                    .to(tensor.dtype)
                )
                yield (
                    f"the values of {name}",
                    program.with_input(name, _like(tensor, random)),
                    "with random values in [0, 1)",
                )
        elif tensor.dtype != torch.bool and not tensor.is_complex() and tensor.numel():
            yield f"the values of {name}", program.with_input(name, torch.zeros_like(tensor)), "with zeros"
        if not tensor.is_contiguous():
            yield (
                f"the strides {tuple(tensor.stride())} of {name}",
                program.with_input(name, tensor.detach().contiguous().requires_grad_(tensor.requires_grad)),
                "as a contiguous copy",
            )
        if tensor.requires_grad:
            yield f"requires_grad of {name}", program.with_input(name, tensor.detach()), "without it"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
