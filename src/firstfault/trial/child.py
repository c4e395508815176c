"""One trial in the process that it gets: read ``plan.json``, run it, write ``outcome.json``.

``python -m firstfault trial DIR`` calls this in a new interpreter, the zygote in a forked child. Exit codes: 0 passed,
1 failed, 2 the plan can't be run, 3 lost.
"""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import os
import re
import sys
import time
import types
from pathlib import Path
from typing import NoReturn

import msgspec

from firstfault.case.schema import ExceptionInfo, Failure
from firstfault.errors import UsageError
from firstfault.record.failure import describe
from firstfault.trial import events
from firstfault.trial.instruments import enter_all
from firstfault.trial.outcome import Outcome, write_outcome
from firstfault.trial.plan import Plan, ScriptPlan, SourcePlan

PROGRAM = "program.py"  # a source plan's text, written out so that tracebacks show its lines
SCRATCH = "scratch"  # a source plan's working folder
EXIT_CODES = {"passed": 0, "failed": 1, "diverged": 1, "invalid": 2}
LOST = 3
_SOMETHING_ELSE = (
    2  # exit code of a program that checks itself, when another failure happened than the one it expects
)

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
    folder = folder.absolute()
    try:
        plan = msgspec.json.decode((folder / "plan.json").read_bytes(), type=Plan)
    except (OSError, msgspec.MsgspecError) as error:
        sys.stderr.write(
            f"firstfault: {folder}/plan.json can't be read: {error}; name the folder of a trial\n"
        )
        return EXIT_CODES["invalid"]
    faulthandler.enable()
    os.environ.update({name: value for name, value in SILENCED.items() if name not in os.environ})
    started = time.monotonic()
    try:
        if plan.memory_bytes is not None:
            _limit_memory(plan.memory_bytes)
        outcome = _run(plan, folder)
    except UsageError as error:
        outcome = Outcome(ended="invalid", reason=str(error))
    except BaseException as error:
        outcome = Outcome(ended="lost", reason=f"{type(error).__name__}: {error}", failure=_told(error))
    outcome = msgspec.structs.replace(outcome, folder=str(folder), seconds=time.monotonic() - started)
    write_outcome(folder, outcome)
    _flush()
    return EXIT_CODES.get(outcome.ended, LOST)


def leave(code: int) -> NoReturn:
    """End this process without running what the script left for its exit: an upload, a wait for its own threads."""
    _flush()
    os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _told(error: BaseException) -> Failure | None:
    with contextlib.suppress(Exception):
        return describe(error)
    return None


def _limit_memory(limit: int) -> None:
    """Bound the memory that this process can write to; each child of it has the same bound for itself.

    Not the address space (RLIMIT_AS): device drivers reserve terabytes of that and use none of it.
    """
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _run(plan: Plan, folder: Path) -> Outcome:
    if plan.variant is not None and plan.variant.settings:
        from firstfault.trial.variant import apply

        apply(plan.variant)
    if isinstance(plan, ScriptPlan):
        from firstfault.trial.script import run_script

        return run_script(plan, folder)
    return run_source(plan, folder)


def run_source(plan: SourcePlan, folder: Path) -> Outcome:
    """Run a small program as ``__main__`` in a scratch folder of the trial's."""
    path = folder / PROGRAM
    path.write_text(plan.text, encoding="utf-8")
    scratch = folder / SCRATCH
    scratch.mkdir(exist_ok=True)
    os.chdir(scratch)
    try:
        code = compile(plan.text, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return Outcome(ended="invalid", reason=f"the candidate is no Python: {error}")
    program = types.ModuleType("__main__")
    program.__dict__.update({"__builtins__": builtins, "__file__": str(path)})
    sys.modules["__main__"] = program
    sys.argv[:] = [str(path)]
    sys.path.insert(0, str(folder))
    with contextlib.ExitStack() as stack:
        enter_all(stack, plan.instruments, folder, plan)
        try:
            exec(code, program.__dict__)
        except SystemExit as exit_:
            return _exited(plan, exit_, folder)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            events.failed(error)
            return Outcome(ended="failed", reached=True, failure=describe(error))
    return Outcome(ended="passed", reached=True, exit_code=0)


# ---- programs that end themselves -------------------------------------------------------------------------------------


def _exited(plan: SourcePlan, exit_: SystemExit, folder: Path) -> Outcome:
    """The outcome of a program that called ``sys.exit``; what failed is read off the exception or standard error."""
    code = _exit_code(exit_)
    if code == 0:
        return Outcome(ended="passed", reached=True, exit_code=0)
    _flush()
    text = "" if not isinstance(exit_.code, str) else exit_.code
    with contextlib.suppress(OSError):
        text = f"{(folder / 'stderr').read_text(errors='replace')}\n{text}"
    failure = describe(exit_.__context__) if exit_.__context__ is not None else failure_in(text)
    if failure is None or (plan.checks_itself and code == _SOMETHING_ELSE):
        failure = _failed_otherwise(code, failure, text)
    return Outcome(ended="failed", reached=True, exit_code=code, failure=failure)


def _exit_code(exit_: SystemExit) -> int:
    """What Python makes of ``sys.exit(code)``: None is 0, an int itself, anything else is printed and 1."""
    if exit_.code is None:
        return 0
    return exit_.code if isinstance(exit_.code, int) else 1


def _failed_otherwise(code: int, failure: Failure | None, text: str) -> Failure:
    """A failure that compares equal to none of the user's: the program says that something else happened."""
    lines = text.strip().splitlines()
    told = failure.exception if failure is not None else None
    message = f"{told.type}: {told.message}" if told is not None else (lines[-1] if lines else "")
    exception = ExceptionInfo(type="SystemExit", message=f"{code}: {message}".rstrip(": "))
    return Failure(kind="raised", phase="other", exception=exception)


_EXCEPTION_LINE = re.compile(
    r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)): (?P<message>.*)$"
)


def failure_in(text: str) -> Failure | None:
    """The last exception that a program printed, as the last lines of a traceback or as a line of its own.

    >>> failure_in("same failure\\nIndexError: Target 4 is out of bounds.").exception.type
    'IndexError'
    """
    lines = text.splitlines()
    for number in range(len(lines) - 1, -1, -1):
        found = _EXCEPTION_LINE.match(lines[number])
        if found is not None:
            message = "\n".join([found["message"], *lines[number + 1 :]]).rstrip()
            return Failure(
                kind="raised", phase="other", exception=ExceptionInfo(type=found["type"], message=message)
            )
    return None


if __name__ == "__main__":
    leave(main(Path(sys.argv[1])))
