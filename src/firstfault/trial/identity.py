"""What makes two trials the same trial: the plan, and the source that it runs as it is on disk now."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

import msgspec

from firstfault.case.schema import Source
from firstfault.case.store import CaseFolder
from firstfault.errors import UsageError
from firstfault.trial.plan import Plan, ScriptPlan

_encode = msgspec.json.Encoder(order="deterministic").encode


def identity(plan: Plan) -> str | None:
    """A digest that equal trials share; None when it can't be told what the plan would run.

    Of the user's files their size and time of change count, not their content: an engine lives as long as one command,
    and reading them all would cost more than a trial.
    """
    digest = hashlib.sha256(_encode(plan))
    if isinstance(plan, ScriptPlan):
        try:
            stamps = _stamps(plan)
        except UsageError:
            return None
        digest.update(_encode(stamps))
    return digest.hexdigest()


def _stamps(plan: ScriptPlan) -> list[tuple[str, int, int]]:
    source = _source(plan.case)
    root = plan.source or source.root
    paths = [os.path.join(root, file.path) for file in source.files]
    if source.script is not None and plan.source is None:
        paths.append(source.script)
    return [_stamp(path) for path in paths]


def _stamp(path: str) -> tuple[str, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return path, -1, -1
    return path, found.st_size, found.st_mtime_ns


@functools.lru_cache(maxsize=64)  # facts are written once, and a session works on few cases
def _source(case: str) -> Source:
    return CaseFolder(Path(case)).facts().source
