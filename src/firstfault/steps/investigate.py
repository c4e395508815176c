"""All steps on one case, in their order. A step that can't be done says why, and the next one goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

from firstfault.case.findings import STEPS, Finding
from firstfault.case.store import CaseFolder
from firstfault.errors import FirstFaultError, UsageError
from firstfault.steps.explain import explain
from firstfault.steps.locate import locate
from firstfault.steps.replay import replay, reproduction
from firstfault.steps.shrink import DEFAULT_SECONDS, shrink
from firstfault.trial.engine import Engine

ORDER = ("replay", "locate", "explain", "shrink")

Told = Callable[[str, Finding], None]


def investigate(
    folder: CaseFolder,
    *,
    jobs: int | None = None,
    seconds: float = DEFAULT_SECONDS,
    batch: str = "auto",
    told: Told = lambda name, finding: None,
) -> dict[str, Finding]:
    """Do every step and tell of each as it ends."""
    done: dict[str, Finding] = {}
    with engine_for(folder, jobs) as engine:
        for name in ORDER:
            try:
                finding = _do(name, folder, engine, batch=batch, seconds=seconds)
            except UsageError:
                raise
            except Exception as error:
                finding = STEPS[name](
                    summary=f"not done: {type(error).__name__}: {error}",
                    not_done=str(error) or type(error).__name__,
                )
            done[name] = finding
            told(name, finding)
    clean(folder)
    return done


def run_step(name: str, folder: CaseFolder, *, jobs: int | None = None, **options: Any) -> Any:
    """One step; those that need a reproduction make it first when there is none yet."""
    if name == "explain":
        return explain(folder)
    with engine_for(folder, jobs) as engine:
        if name != "replay" and reproduction(folder) is None:
            _do("replay", folder, engine)
        finding = _do(name, folder, engine, **options)
    clean(folder)
    return finding


def engine_for(folder: CaseFolder, jobs: int | None = None) -> Engine:
    """An engine that works inside of the case's folder."""
    folder.facts()  # a damaged case is refused before anything is started
    return Engine(folder.path / "trials", jobs=jobs)


def clean(folder: CaseFolder) -> None:
    """Delete the trials' folders: what matters is in the findings."""
    shutil.rmtree(folder.path / "trials", ignore_errors=True)


def _do(name: str, folder: CaseFolder, engine: Engine, **options: Any) -> Finding:
    if name == "replay":
        source = str((folder.path / "source").absolute()) if options.get("source") == "recorded" else None
        return replay(folder, engine, batch=options.get("batch", "auto"), source=source)
    if name == "locate":
        return locate(folder, engine)
    if name == "explain":
        return explain(folder)
    if name == "shrink":
        return shrink(folder, engine, seconds=options.get("seconds", DEFAULT_SECONDS))
    raise FirstFaultError(f"there is no step {name!r}; steps are {', '.join(ORDER)}")


__all__ = ["ORDER", "clean", "engine_for", "investigate", "run_step"]
