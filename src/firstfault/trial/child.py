"""One trial in the process that it gets: read ``plan.json``, run it, write ``outcome.json``.

``python -m firstfault trial DIR`` calls this in a new interpreter, the zygote in a forked child. Exit codes: 0 passed,
1 failed, 2 the plan can't be run, 3 lost.
"""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import os
import sys
import time
import types
from pathlib import Path

import msgspec

from firstfault.case.store import write_atomically
from firstfault.errors import UsageError
from firstfault.record.failure import describe
from firstfault.trial.instruments import enter_all
from firstfault.trial.outcome import Outcome
from firstfault.trial.plan import Plan, ScriptPlan, SourcePlan

PROGRAM = "program.py"  # a source plan's text, written out so that tracebacks show its lines

# Experiment trackers must not hear of a trial: a replay never writes into somebody's experiment.
SILENCED = {
    "WANDB_MODE": "disabled",
    "COMET_MODE": "DISABLED",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "AIM_DISABLED": "1",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def main(folder: Path) -> int:
    """Run the trial in ``folder`` and write its outcome; returns the exit code."""
    try:
        plan = msgspec.json.decode((folder / "plan.json").read_bytes(), type=Plan)
    except (OSError, msgspec.MsgspecError) as error:
        sys.stderr.write(f"firstfault: {folder}/plan.json can't be read: {error}\n")
        return 2
    faulthandler.enable()
    os.environ.update({name: value for name, value in SILENCED.items() if name not in os.environ})
    started = time.monotonic()
    try:
        outcome = _run(plan, folder)
    except UsageError as error:
        outcome = Outcome(ended="invalid", reason=str(error))
    except BaseException as error:
        outcome = Outcome(ended="lost", reason=f"{type(error).__name__}: {error}", failure=_told(error))
    outcome = msgspec.structs.replace(outcome, folder=str(folder), seconds=time.monotonic() - started)
    write_atomically(folder / "outcome.json", msgspec.json.encode(outcome))
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    return {"passed": 0, "failed": 1, "invalid": 2}.get(outcome.ended, 3)


def _told(error: BaseException):  # type: ignore[no-untyped-def]
    with contextlib.suppress(Exception):
        return describe(error)
    return None


def _run(plan: Plan, folder: Path) -> Outcome:
    if isinstance(plan, ScriptPlan):
        from firstfault.trial.script import run_script

        if plan.variant is not None:
            _apply(plan)
        return run_script(plan, folder)
    if plan.variant is not None:
        _apply(plan)
    return run_source(plan, folder)


def _apply(plan: Plan) -> None:
    from firstfault.trial.variant import apply

    assert plan.variant is not None
    apply(plan.variant)


def run_source(plan: SourcePlan, folder: Path) -> Outcome:
    """Run a small program as ``__main__`` in a scratch folder of the trial's."""
    path = folder / PROGRAM
    path.write_text(plan.text)
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    os.chdir(scratch)
    try:
        code = compile(plan.text, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        return Outcome(ended="invalid", reason=f"the candidate is no Python: {error}")
    main_module = types.ModuleType("__main__")
    main_module.__dict__.update({"__builtins__": builtins, "__file__": str(path)})
    sys.modules["__main__"] = main_module
    sys.argv[:] = [str(path)]
    with contextlib.ExitStack() as stack:
        enter_all(stack, plan.instruments, folder, plan)
        try:
            exec(code, main_module.__dict__)
        except SystemExit as exit_:
            return _exited(plan, exit_)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            from firstfault.trial import events

            events.failed(error)
            return Outcome(ended="failed", reached=True, failure=describe(error))
    return Outcome(ended="passed", reached=True, exit_code=0)


def _exited(plan: SourcePlan, exit_: SystemExit) -> Outcome:
    code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    if plan.checks_itself and code == 0:
        return Outcome(ended="passed", reached=True, exit_code=0)
    before = exit_.__context__
    failure = describe(before) if before is not None else None
    return Outcome(ended="failed" if code else "passed", reached=True, exit_code=code, failure=failure)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
