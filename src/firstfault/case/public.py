"""The part of a case that may leave the machine: an allow-list of fields, then the rules of redaction on each text.

A field that is not listed here does not come along: it takes its default. Whoever adds a field to the schema decides
here whether it may leave, and how. Numbers, flags and names out of a fixed set stay; every text goes through
:meth:`Redactor.text`; some fields have a rule of their own.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from firstfault.case import findings as f
from firstfault.case import schema as s
from firstfault.case.findings import Finding
from firstfault.case.known_secrets import Known
from firstfault.case.redaction import PUBLIC_PACKAGES, Redactor, learned, quoted_text
from firstfault.case.schema import Case, Failure

T = TypeVar("T")
Rule = Callable[[Redactor, Any], Any]

# Values of variables that say nothing of anybody: numbers, switches, lists of devices, an allocator's settings.
_PLAIN_VALUE = re.compile(
    r"[\d.,:;x-]{1,40}|true|false|on|off|yes|no|(?:[a-z_]{3,40}:[\w.]{1,12},?){1,6}|INFO|WARN|DEBUG",
    re.IGNORECASE,
)


def _path(redactor: Redactor, value: str) -> str:
    """The path of a source file."""
    return redactor.text(redactor.path(value) if re.search(r"[/\\]", value) else value)


def _commit(redactor: Redactor, value: str) -> str:
    """A hash of git's stays; it tells only those who have the source already."""
    return value if re.fullmatch(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", value) else redactor.text(value)


def _samples(redactor: Redactor, value: Any) -> Any:
    return redactor.sample(value)


def _value(redactor: Redactor, value: Any) -> Any:
    return redactor.value(value)


def _pairs_of_values(redactor: Redactor, value: Any) -> Any:
    return tuple((str(redactor.value(label)), count) for label, count in value)


def _variables(redactor: Redactor, value: Mapping[str, str]) -> dict[str, str]:
    """Names stay; values only where they are plain settings."""
    return {
        redactor.text(name): redactor.text(each)
        if _PLAIN_VALUE.fullmatch(each)
        else redactor.put("value", each)
        for name, each in value.items()
    }


def _packages(redactor: Redactor, value: Mapping[str, str]) -> dict[str, str]:
    """Versions of packages that anybody may have; how many others there are is counted only."""
    public = {
        name: each
        for name, each in value.items()
        if _is_public(name) and re.fullmatch(r"[\w.+!-]{1,60}", each)
    }
    if len(public) < len(value):
        redactor.left_out("package", len(value) - len(public))
    return public


def _is_public(package: str) -> bool:
    name = package.replace("-", "_")
    return name in PUBLIC_PACKAGES or name.startswith(("nvidia_", "torch_", "pytorch_", "rocm"))


def _arguments(redactor: Redactor, value: tuple[str, ...]) -> tuple[str, ...]:
    if value:
        redactor.left_out("argument", len(value))
    return (f"<{len(value)} arguments>",) if value else ()


# What may leave, by type: the fields that come along, and those that have a rule of their own.
_ALLOWED: Mapping[type, tuple[str, ...]] = {
    s.Frame: ("line", "function", "code", "owner", "end_line"),
    s.ExceptionInfo: ("type", "message", "bases", "caused_by"),
    s.DeviceAssert: ("text", "line", "kernel", "block", "thread", "condition", "count"),
    s.Consequence: ("exception", "seen", "note"),
    s.WorkerFailure: ("stage", "worker", "position", "frames"),
    s.Failure: ("kind", "phase", "exception", "seen", "frames", "modules", "device_asserts", "consequences", "swallowed", "fetch", "grad_enabled"),
    s.Unstepped: ("loader", "pass_", "batch"),
    s.Progress: ("loader", "pass_", "batch", "last_completed_step", "steps_by_optimizer", "handed_out", "unstepped"),
    s.Leaf: ("path", "shape", "dtype", "device", "stride", "layout"),
    s.Batch: ("size", "expected_size", "leaves", "worker"),
    s.Loader: ("loader", "name", "kind", "dataset", "length", "batches", "batch_size", "workers", "start_method", "sampler", "batch_sampler", "drop_last", "iterable", "shuffled", "passes", "made_at", "parts"),
    s.Device: ("kind", "index", "name", "capability", "memory_bytes"),
    s.Environment: ("python", "platform", "torch", "backend", "cuda", "hip", "cudnn", "arch_list", "devices", "threads", "flags"),
    s.Source: ("module", "modified"),
    s.Rank: ("rank", "world_size", "local_rank"),
    s.Memory: ("rss", "peak_rss", "available", "device", "history"),
    s.Case: ("schema_version", "firstfault", "id", "created", "failure", "progress", "batch", "loaders", "environment", "source", "rank", "memory", "rng", "notes"),
    f.Replay: ("summary", "not_done", "seconds", "trials", "outcome", "same", "runs", "batch_identical", "plan", "plans_tried", "fed", "signature", "other_signature", "reproduced_in_new_interpreter"),
    f.Argument: ("name", "shape", "dtype", "device", "stride", "minimum", "maximum", "origin"),
    f.Element: ("index", "leaf", "position", "within", "path", "changed_by"),
    f.Violation: ("contract", "argument", "allowed", "elements", "count", "note", "fault"),
    f.Operation: ("operator", "shapes", "line", "module"),
    f.Locate: ("summary", "not_done", "seconds", "trials", "operator", "began", "module", "forward", "arguments", "violations", "trail", "made_at", "changed_at", "method", "certain"),
    f.Explain: ("summary", "not_done", "seconds", "trials", "fault", "family", "first_check", "avoid", "backend", "evidence", "also"),
    f.Difference: ("feature", "failing", "others", "score", "number", "numbers"),
    f.Branch: ("line", "code"),
    f.Contrast: ("summary", "not_done", "seconds", "trials", "differences", "branches", "compared"),
    f.Condition: ("what", "needed", "evidence"),
    f.Shrink: ("summary", "not_done", "seconds", "trials", "sufficient", "repro", "conditions", "lines", "strategy", "confirmed", "others_seen"),
    f.Row: ("change", "outcome", "distance", "reason", "signature"),
    f.Compare: ("summary", "not_done", "seconds", "trials", "rows"),
    f.Breach: ("source",),
    f.Scan: ("summary", "not_done", "seconds", "trials", "rule", "scanned", "total", "breaches", "samples", "by_source", "suggestion"),
    f.Check: ("name", "before", "after", "ok", "reason"),
    f.Verify: ("summary", "not_done", "seconds", "trials", "fixed", "verdict", "checks", "fed", "consumed"),
}  # fmt: skip
_RULES: Mapping[type, Mapping[str, Rule]] = {
    s.Frame: {"file": _path},
    s.DeviceAssert: {"file": _path},
    s.WorkerFailure: {"sample": _samples},
    s.Unstepped: {"indices": _samples},
    s.Batch: {"indices": _samples},
    s.Environment: {"packages": _packages, "variables": _variables},
    s.Source: {"script": _path, "commit": _commit, "argv": _arguments},
    f.Argument: {"value": _value},
    f.Element: {"value": _value, "sample": _samples},
    f.Branch: {"file": _path},
    f.Shrink: {"samples": _samples, "culprits": _samples},
    f.Breach: {"sample": _samples, "value": _value},
    f.Scan: {"histogram": _pairs_of_values},
    f.Verify: {"skipped": _samples},
}
# What never leaves: the run's output, bytes' digests (a digest of few values gives them away), copies, places.
KEPT_BACK: Mapping[type, tuple[str, ...]] = {
    s.Failure: ("stderr_tail",),
    s.Leaf: ("digest",),
    s.Batch: ("structure", "digest", "kept"),
    s.Source: ("cwd", "root", "files", "launcher"),
    s.SourceFile: ("path", "digest", "bytes"),
}


def public_case(case: Case, redactor: Redactor) -> Case:
    """The facts that may leave."""
    failure = msgspec.structs.replace(case.failure, **_quotes_out(case.failure, redactor))
    return allowed(msgspec.structs.replace(case, failure=failure), redactor)


def public_findings(findings: Mapping[str, Finding], redactor: Redactor) -> dict[str, Finding]:
    """The findings that may leave."""
    return {step: allowed(finding, redactor) for step, finding in findings.items()}


def allowed(value: T, redactor: Redactor) -> T:
    """A value with the allow-list and the rules applied, all the way down."""
    return _allowed(value, redactor)


def _allowed(value: Any, redactor: Redactor) -> Any:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, (list, tuple)):
        return tuple(_allowed(each, redactor) for each in value)
    if isinstance(value, Mapping):
        return {redactor.text(str(name)): _allowed(each, redactor) for name, each in value.items()}
    if isinstance(value, msgspec.Struct):
        return _struct(value, redactor)
    redactor.left_out("unknown value")
    return None


def _struct(value: msgspec.Struct, redactor: Redactor) -> Any:
    kind = type(value)
    fields = {name: _allowed(getattr(value, name), redactor) for name in _ALLOWED.get(kind, ())}
    for name, rule in _RULES.get(kind, {}).items():
        given = getattr(value, name)
        fields[name] = None if given is None else rule(redactor, given)
    return kind(**fields)


def _quotes_out(failure: Failure, redactor: Redactor) -> dict[str, Any]:
    """The failure's messages with quoted text replaced, where it isn't torch that speaks of its own names."""

    def clean(exception: s.ExceptionInfo) -> s.ExceptionInfo:
        message = (
            exception.message if _speaks_of_itself(exception) else quoted_text(redactor, exception.message)
        )
        return msgspec.structs.replace(
            exception, message=message, caused_by=tuple(clean(each) for each in exception.caused_by)
        )

    return {
        "exception": None if failure.exception is None else clean(failure.exception),
        "consequences": tuple(
            msgspec.structs.replace(each, exception=clean(each.exception)) for each in failure.consequences
        ),
    }


def _speaks_of_itself(exception: s.ExceptionInfo) -> bool:
    """Whether the message's quotes are torch's own: one of its exceptions, all of them names as code has them."""
    own = exception.type.startswith("torch.") or exception.type in (
        "RuntimeError",
        "NotImplementedError",
        "IndexError",
    )
    quotes = re.findall(r"'([^'\n]*)'|\"([^\"\n]*)\"", exception.message)
    return own and all(
        re.fullmatch(r"[A-Za-z_][\w.:<>()\[\], *-]{0,60}", one or other) for one, other in quotes
    )


# ---- what a case gives away about what is private -----------------------------------------------------------------------


def known_of(case: Case, findings: Mapping[str, Finding]) -> Known:
    """What is private by the case itself: its folders, the names in its paths, the samples' names and texts."""
    folders = [path for path in (case.source.root, case.source.cwd) if path]
    if (
        case.source.script
        and (parent := re.split(r"[/\\][^/\\]*$", case.source.script)[0]) != case.source.script
    ):
        folders.append(parent)
    told = (*_strings(msgspec.to_builtins(case)), *_strings(msgspec.to_builtins(findings)))
    structure = case.batch.structure if case.batch is not None else None
    return Known(
        folders=tuple(("<project>", path) for path in dict.fromkeys(folders)),
        samples=_telling(_of_rule(_samples, (case, findings))),
        texts=_telling((*_strings(structure), *_of_rule(_value, (case, findings)))),
    ) | learned(told)


def _telling(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in texts if _tells(each)))


def _tells(text: str) -> bool:
    """Whether a text may give somebody away: not a number, nor a word that every program has."""
    return (
        len(text) > 3
        and not keyword.iskeyword(text)
        and not hasattr(builtins, text)
        and re.search(r"[^\d.,+-]", text) is not None
    )


def _strings(value: Any) -> Iterator[str]:
    """Every text in plain data, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _strings(each)


def _of_rule(wanted: Rule, value: Any) -> Iterator[str]:
    """Every text in the fields that have a rule: the indices of samples that are names, the texts among their values."""
    if isinstance(value, msgspec.Struct):
        for name, rule in _RULES.get(type(value), {}).items():
            if rule is wanted and not isinstance(value, f.Argument):
                yield from _strings(getattr(value, name))
        for name in value.__struct_fields__:
            yield from _of_rule(wanted, getattr(value, name))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _of_rule(wanted, each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _of_rule(wanted, each)
