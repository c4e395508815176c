"""Run the user's script in this process under a plan, and tell how it ended.

The process is fresh and belongs to the trial: once the plan's batches are through, it ends on the spot, so that nothing
of the script's (a checkpoint in a ``finally`` block, an upload at the end) happens for a batch that never was.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from firstfault.case import store
from firstfault.case.schema import Case, Leaf
from firstfault.errors import UsageError
from firstfault.record import run as run_
from firstfault.record import writing
from firstfault.record.handled import watch
from firstfault.record.launch import Target, execute
from firstfault.record.passes import NOTHING, Pass
from firstfault.record.session import First, Session
from firstfault.record.swallowed import Suspicion
from firstfault.record.torch_hook import when_torch_is_imported
from firstfault.trial import events
from firstfault.trial.instruments import enter_all
from firstfault.trial.outcome import Outcome
from firstfault.trial.plan import ScriptPlan


def run_script(plan: ScriptPlan, folder: Path) -> Outcome:
    """Run the plan's script; returns the outcome, or ends the process with it written when the batches are through."""
    case = store.CaseFolder(Path(plan.case)).facts()
    watched = Watched(plan, case, folder)
    started = time.monotonic()
    session = Session(folder, watcher=watched)
    suspicion = Suspicion(session)
    session.doubter = suspicion
    watched.begin(session, started)
    undo: list[Callable[[], None]] = [watch(suspicion.handled)]
    when_torch_is_imported(
        lambda: undo.extend([*run_.tap_torch(session), _feeding(plan, case, session, watched)])
    )
    target = target_of(plan, case)
    if case.source.cwd and os.path.isdir(case.source.cwd):
        os.chdir(case.source.cwd)
    error: BaseException | None = None
    enter_all(watched.instruments, plan.instruments, folder, plan)
    try:
        execute(target)
    except BaseException as raised:
        error = raised
    outcome = watched.ended(error, suspicion)
    watched.instruments.close()
    return outcome


def target_of(plan: ScriptPlan, case: Case) -> Target:
    """The script as it is today, or the recorded copy that the plan names.

    Raises:
        UsageError: the script is gone.
    """
    source = case.source
    if source.module is not None:
        return Target(module=source.module, arguments=source.argv)
    script = source.script or ""
    if plan.source is not None:
        script = str(Path(plan.source) / os.path.relpath(script, source.root))
    if not os.path.exists(script):
        raise UsageError(
            f"the case's script {script} is gone; put it back, or replay the recorded source with --source recorded"
        )
    return Target(script=script, arguments=source.argv)


def _feeding(plan: ScriptPlan, case: Case, session: Session, watched: Watched) -> Callable[[], None]:
    from firstfault.trial.feeding import Feeder, feed

    watched.feeder = Feeder(plan, case, session, watched.refuse)
    return feed(watched.feeder)


class Watched:
    """The trial's eyes on the session: digests, whether the watched batch was reached, and the end."""

    def __init__(self, plan: ScriptPlan, case: Case, folder: Path) -> None:
        self.plan = plan
        self.case = case
        self.folder = folder
        self.feeder: Any = None
        self.reached = False
        self.digest_fetched: str | None = None
        self.leaves: tuple[Leaf, ...] = ()
        self.instruments = contextlib.ExitStack()

    def begin(self, session: Session, started: float) -> None:
        self.session = session
        self.started = started

    # ---- the session's watcher ------------------------------------------------------------------------------------

    def asked(self, current: Pass) -> None:
        """The loop wants its next batch: the trial is over when the watched one is through."""
        if self.plan.until == "end" or not self.reached:
            return
        if self.plan.feeds:
            through = self.feeder is not None and self.feeder.left == 0 and self._is_fed(current)
        else:
            through = self._is_watched(current, current.batch_number)
        if through:
            self.finish(Outcome(ended="passed", **self._common()))

    def handed_out(self, current: Pass, batch: Any) -> None:
        watched = (
            self._is_fed(current) if self.plan.feeds else self._is_watched(current, current.batch_number)
        )
        if not watched:
            return
        self.reached = True
        described = self._describe(batch)
        self.digest_fetched, self.leaves = described.get("digest"), described.get("leaves", ())
        indices = current.indices if isinstance(current.indices, (list, tuple)) else None
        if indices and indices[0] is None:
            indices = None
        events.batch_handed_out(batch, indices)

    def swallowed(self, first: First) -> None:
        """The script handled the failure and goes on; the trial doesn't."""
        if first.error is not None:
            events.failed(first.error)
        self.finish(self._failed(first))

    def _is_fed(self, current: Pass) -> bool:
        return (current.loader.number, current.number) in {
            (feed.loader, feed.pass_) for feed in self.plan.feeds
        }

    def _is_watched(self, current: Pass, number: int) -> bool:
        return (current.loader.number, current.number, number) == self.plan.until_batch

    def _describe(self, batch: Any) -> dict[str, Any]:
        with self.session.guarded("a batch could not be described"):
            from firstfault.record import compat, values

            with compat.without_modes():
                return values.describe_batch(batch)
        return {}

    # ---- the end --------------------------------------------------------------------------------------------------

    def ended(self, error: BaseException | None, suspicion: Suspicion) -> Outcome:
        """The script ended, with an error or well."""
        unusable = self._unusable(error)
        if unusable is not None:
            return Outcome(ended="invalid", reason=unusable, **self._common())
        fetching = self.session.failing
        if fetching is not None and (
            self._is_fed(fetching) if self.plan.feeds else self._is_watched(fetching, fetching.batch_number)
        ):
            self.reached = True
        first = run_.first_failure(self.session, suspicion, error)
        if first is not None:
            if first.error is not None:
                events.failed(first.error)
            return self._failed(first)
        code = (
            error.code
            if isinstance(error, SystemExit) and isinstance(error.code, int)
            else int(error is not None)
        )
        wanted = bool(self.plan.feeds) or self.plan.until_batch is not None
        ended = "diverged" if wanted and not self.reached else "passed"
        reason = "the script ended before the batch was asked for" if ended == "diverged" else None
        return Outcome(ended=ended, reason=reason, exit_code=code, **self._common())  # type: ignore[arg-type]

    def _unusable(self, error: BaseException | None) -> str | None:
        """Why the script can't be replayed as it is now, when that is so and the recorded failure was no such thing."""
        if isinstance(error, UsageError):
            return str(error)
        recorded = self.case.failure.exception
        same_kind = recorded is not None and type(error).__name__ in (recorded.type, *recorded.bases)
        if self.reached or same_kind or self.session.loader_states:
            return None
        if isinstance(error, SyntaxError):
            where = f"{Path(error.filename or 'a module').name}, line {error.lineno}"
            return f"the script now has a syntax error ({where}: {error.msg}); mend it, then replay again"
        if isinstance(error, ImportError):
            return f"the script can't be started any more ({type(error).__name__}: {error}); restore its environment, then replay again"
        return None

    def refuse(self, reason: str) -> None:
        """End the trial: what the plan asks for can't be had from the script as it is now."""
        self.finish(Outcome(ended="invalid", reason=reason, **self._common()))

    def _failed(self, first: First) -> Outcome:
        current = first.current
        digest = None
        if current is not None and current.batch is not NOTHING:
            digest = self._describe(current.batch).get("digest")
        failure = msgspec.structs.replace(first.failure, consequences=tuple(self.session.consequences))
        progress = first.progress or writing.progress(self.session, failure, current, first.steps)
        return Outcome(
            ended="failed", failure=failure, progress=progress, digest_failed=digest, **self._common()
        )

    def _common(self) -> dict[str, Any]:
        return {
            "reached": self.reached,
            "digest_fetched": self.digest_fetched,
            "leaves": self.leaves,
            "seconds": time.monotonic() - self.started,
            "folder": str(self.folder),
        }

    def finish(self, outcome: Outcome) -> None:
        """End the trial's process here and now, with the outcome written."""
        with contextlib.suppress(Exception):
            self.instruments.close()
        store.write_atomically(self.folder / "outcome.json", msgspec.json.encode(outcome))
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit({"passed": 0, "failed": 1}.get(outcome.ended, 2))
