"""The engine: what a trial's end is called, what is run and what is remembered, and that nothing is left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from firstfault.errors import FirstFaultError, UsageError
from firstfault.trial import engine as engine_module
from firstfault.trial.engine import Engine
from firstfault.trial.outcome import Outcome
from firstfault.trial.plan import Plan, SourcePlan, Variant

DEADLINE = 20.0  # seconds for a process to appear or to go on a busy machine


def wait_until(happened: Callable[[], bool], what: str) -> None:
    """Look until something has happened; fails after the deadline."""
    deadline = time.monotonic() + DEADLINE
    while not happened():
        assert time.monotonic() < deadline, f"{what} did not happen within {DEADLINE:g} s"
        threading.Event().wait(0.01)


def gone(pid: int) -> bool:
    """Whether a process is no more, or is a zombie whose parent has not looked yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def failed(outcome: Outcome) -> bool:
    return outcome.ended == "failed"


# ---- how a trial ended ----------------------------------------------------------------------------------------------


def test_a_program_that_ends_well_passes(engine: Engine) -> None:
    """The outcome says passed, and what was printed lies in the trial's folder."""
    outcome = engine.run(SourcePlan(text="print('hello')"))
    assert (outcome.ended, outcome.exit_code, outcome.failure) == ("passed", 0, None)
    assert outcome.folder is not None
    assert (Path(outcome.folder) / "stdout").read_text() == "hello\n"


def test_what_a_program_raises_is_described(engine: Engine) -> None:
    """Exception, message and the program's own line are in the outcome."""
    text = "import torch\n\ntorch.nn.functional.cross_entropy(torch.zeros(2, 4), torch.tensor([0, 4]))\n"
    outcome = engine.run(SourcePlan(text=text))
    assert outcome.ended == "failed"
    assert outcome.failure is not None
    assert outcome.failure.exception is not None
    assert (outcome.failure.exception.type, outcome.failure.exception.message) == (
        "IndexError",
        "Target 4 is out of bounds.",
    )
    assert outcome.failure.seen is not None
    assert (outcome.failure.seen.line, outcome.failure.seen.code) == (3, text.splitlines()[2])


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGFPE", "SIGBUS"])
def test_death_by_its_own_fault_is_a_failure(engine: Engine, name: str) -> None:
    """A crash is what the program did: it failed, killed by that signal."""
    outcome = engine.run(SourcePlan(text=f"import os, signal; os.kill(os.getpid(), signal.{name})"))
    assert (outcome.ended, outcome.signal) == ("failed", signal.Signals[name].value)
    assert outcome.failure is not None
    assert outcome.failure.exception is not None
    assert (outcome.failure.kind, outcome.failure.exception.type) == ("killed", name)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_death_from_outside_is_lost(engine: Engine, name: str) -> None:
    """Killed by an administrator or for lack of memory says nothing about the program."""
    outcome = engine.run(SourcePlan(text=f"import os, signal; os.kill(os.getpid(), signal.{name})"))
    assert (outcome.ended, outcome.failure) == ("lost", None)
    assert name in (outcome.reason or "")


def test_an_end_without_a_word_is_lost(engine: Engine) -> None:
    """A process that leaves no outcome did not pass, whatever its exit code."""
    assert engine.run(SourcePlan(text="import os; os._exit(0)")).ended == "lost"


def test_too_long_is_timed_out(engine: Engine) -> None:
    """A trial is killed at its time limit, in an endless loop too, and says so."""
    outcome = engine.run(SourcePlan(text="while True: pass", seconds=0.3))
    assert outcome.ended == "timed_out"
    assert "0.3 s" in (outcome.reason or "")


def test_a_memory_limit_holds(engine: Engine) -> None:
    """An allocation over the limit fails in the trial, and only there."""
    plan = SourcePlan(text="import torch; torch.ones(4 * 2**30, dtype=torch.uint8)", memory_bytes=2 * 2**30)
    outcome = engine.run(plan)
    assert outcome.ended == "failed"
    assert outcome.failure is not None
    assert outcome.failure.exception is not None
    assert "can't allocate memory" in outcome.failure.exception.message


def test_no_python_is_invalid(engine: Engine) -> None:
    """A candidate that can't be built is neither a pass nor a failure."""
    assert engine.run(SourcePlan(text="1 +")).ended == "invalid"


def test_an_instrument_that_cannot_be_found_is_lost(engine: Engine) -> None:
    """When the machinery breaks, the trial says nothing about the program."""
    outcome = engine.run(SourcePlan(text="1 / 0", instruments=("firstfault.nowhere:nothing",)))
    assert outcome.ended == "lost"
    assert "firstfault.nowhere" in (outcome.reason or "")


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("sys.exit(0)", ("passed", "")),
        ("sys.exit()", ("passed", "")),
        ("sys.exit(1)", ("failed", "IndexError: too large")),
        ("sys.exit(2)", ("failed", "SystemExit: 2: IndexError: too large")),
        ("sys.exit('no luck')", ("failed", "SystemExit: 1: no luck")),
    ],
)
@pytest.mark.parametrize("handled", [True, False], ids=["in the handler", "after it"])
def test_programs_that_check_themselves(
    engine: Engine, end: str, expected: tuple[str, str], handled: bool
) -> None:
    """Exit 1 is the failure that the program expects, 0 is none, 2 another one that compares equal to nothing."""
    indent = "    " if handled else ""
    text = f"import sys\ntry:\n    raise IndexError('too large')\nexcept IndexError as e:\n    print('IndexError:', e, file=sys.stderr)\n{indent}{end}\n"
    outcome = engine.run(SourcePlan(text=text, checks_itself=True))
    said = ""
    if outcome.failure is not None and outcome.failure.exception is not None:
        said = f"{outcome.failure.exception.type}: {outcome.failure.exception.message}"
    assert (outcome.ended, said) == expected or ("no luck" in end and outcome.ended == "failed")


# ---- processes ------------------------------------------------------------------------------------------------------


def test_every_trial_starts_fresh(engine: Engine) -> None:
    """What one trial leaves in Python is not there in the next; each draws its own random numbers."""
    text = "import builtins, random, torch\nassert not hasattr(builtins, 'left')\nbuiltins.left = 1\nprint(random.random(), torch.rand(1).item())"
    outcomes = engine.run_all([SourcePlan(text=text, repeat=number) for number in range(3)])
    assert [outcome.ended for outcome in outcomes] == ["passed"] * 3
    printed = [(Path(outcome.folder or "") / "stdout").read_text().split() for outcome in outcomes]
    assert len({python for python, _ in printed}) == 3
    assert len({torch for _, torch in printed}) == 1, "torch starts every process from the same seed"


def test_a_program_sees_the_world_as_python_shows_it(interpreters: Engine, engine: Engine) -> None:
    """``__name__``, ``sys.argv``, ``sys.path[0]`` and an empty working folder, forked or not."""
    text = (
        "import os, sys\n"
        "assert __name__ == '__main__' and sys.argv == [__file__]\n"
        "assert sys.path[0] == os.path.dirname(__file__) and os.listdir() == []\n"
        "assert sys.stdin.read() == ''\n"
    )
    for each in (interpreters, engine):
        outcome = each.run(SourcePlan(text=text))
        assert outcome.ended == "passed", outcome.stderr_tail


def test_a_changed_environment_gets_a_new_interpreter_and_instruments_are_entered(
    engine: Engine, tmp_path: Path
) -> None:
    """The variables are there before anything is imported; an instrument wraps the program and gets folder and plan."""
    (tmp_path / "probe.py").write_text(
        "import contextlib\n"
        "@contextlib.contextmanager\n"
        "def probe(folder, plan):\n"
        "    (folder / 'probe').write_text(plan.variant.name)\n"
        "    try:\n        yield\n"
        "    finally:\n        (folder / 'probe').open('a').write(', left')\n"
    )
    variant = Variant(name="a path", environment={"PYTHONPATH": str(tmp_path)})
    outcome = engine.run(
        SourcePlan(
            text="import sys; assert 'torch' not in sys.modules; 1/0",
            variant=variant,
            instruments=("probe:probe",),
        )
    )
    assert outcome.ended == "failed", outcome
    assert (Path(outcome.folder or "") / "probe").read_text() == "a path, left"


def test_a_trial_is_one_folder_and_one_command(tmp_path: Path) -> None:
    """Anything that runs a command can run a trial; its exit code tells 0 passed, 1 failed, 2 no plan, 3 lost."""
    plans: dict[int, Plan | None] = {
        0: SourcePlan(text=""),
        1: SourcePlan(text="1/0"),
        2: None,
        3: SourcePlan(text="", instruments=("nowhere:nothing",)),
    }
    for code, plan in plans.items():
        folder = tmp_path / str(code)
        folder.mkdir()
        if plan is not None:
            (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
        done = subprocess.run(
            [sys.executable, "-m", "firstfault.trial.child", str(folder)], stderr=subprocess.PIPE, text=True
        )
        assert done.returncode == code, done.stderr


# ---- several trials -------------------------------------------------------------------------------------------------


def test_outcomes_come_in_the_order_of_the_plans(interpreters: Engine) -> None:
    """However long each takes."""
    plans = [
        SourcePlan(text=f"import time; time.sleep({wait}); raise ValueError({wait})")
        for wait in (0.2, 0.0, 0.1, 0.05)
    ]
    messages = [outcome.failure.exception.message for outcome in interpreters.run_all(plans)]  # type: ignore[union-attr]
    assert messages == ["0.2", "0.0", "0.1", "0.05"]


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_the_first_accepted_does_not_depend_on_the_jobs(tmp_path: Path, jobs: int) -> None:
    """The first in the given order counts, also when a later one fails sooner; the rest is called off."""
    waits = (0.0, 0.2, 0.0, 60.0, 60.0)
    plans = [
        SourcePlan(text=f"import time; time.sleep({wait})\nif {number} in (1, 2): raise ValueError({number})")
        for number, wait in enumerate(waits)
    ]
    begun = time.monotonic()
    with Engine(tmp_path, jobs=jobs, fork=False) as engine:
        found = engine.first(plans, failed)
        assert found is not None
        assert found[0] == 1
        assert engine.first(plans[:1], failed) is None
        assert 2 <= engine.trials <= 1 + jobs
    assert time.monotonic() - begun < 30


def test_equal_plans_run_once(interpreters: Engine) -> None:
    """An outcome is remembered by its plan; another text, or a repeat, is another trial."""
    before = interpreters.trials
    plan = SourcePlan(text="x = 'once'")
    assert interpreters.run(plan) == interpreters.run(plan)
    assert interpreters.trials == before + 1
    interpreters.run(msgspec.structs.replace(plan, repeat=1))
    assert interpreters.trials == before + 2


@pytest.mark.parametrize(
    ("text", "ended"), [("import os; os._exit(0)", "lost"), ("while 1: pass", "timed_out")]
)
def test_what_says_nothing_is_not_remembered(engine: Engine, text: str, ended: str) -> None:
    """A lost or timed-out trial is run again when it is asked for again."""
    before = engine.trials
    for _ in range(2):
        assert engine.run(SourcePlan(text=text, seconds=0.2, repeat=7)).ended == ended
    assert engine.trials == before + 2


def test_progress_is_told(tmp_path: Path) -> None:
    """Each executed trial is told of with the count so far, its plan and its outcome."""
    told: list[tuple[int, str, str]] = []

    def progress(count: int, plan: Plan, outcome: Outcome) -> None:
        assert isinstance(plan, SourcePlan)
        told.append((count, plan.text, outcome.ended))

    with Engine(tmp_path, jobs=1, fork=False, progress=progress) as engine:
        engine.run_all([SourcePlan(text="1"), SourcePlan(text="1/0"), SourcePlan(text="1")])
    assert told == [(1, "1", "passed"), (2, "1/0", "failed")]


# ---- what is left behind --------------------------------------------------------------------------------------------


def test_folders_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the newest trial folders stay, counting those of earlier engines; scratch files go at once."""
    monkeypatch.setattr(engine_module, "KEPT_FOLDERS", 3)
    for _ in range(2):
        with Engine(tmp_path, jobs=1, fork=False) as engine:
            outcomes = [
                engine.run(SourcePlan(text=f"open('big', 'w').write('{number}')")) for number in range(4)
            ]
    assert {folder.name for folder in tmp_path.iterdir()} == {
        Path(outcome.folder or "").name for outcome in outcomes[1:]
    }
    assert sorted(each.name for each in Path(outcomes[-1].folder or "").iterdir()) == [
        "outcome.json",
        "plan.json",
        "program.py",
        "stderr",
        "stdout",
    ]


def test_a_remembered_outcome_whose_artifacts_are_gone_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an instrument wrote is part of the outcome: when its folder was deleted, the trial is run again."""
    (tmp_path / "here.py").write_text(
        "import contextlib\n@contextlib.contextmanager\ndef here(folder, plan):\n    yield\n"
    )
    monkeypatch.setattr(engine_module, "KEPT_FOLDERS", 1)
    variant = Variant(name="", environment={"PYTHONPATH": str(tmp_path)})
    with Engine(tmp_path / "trials", jobs=1, fork=False) as engine:
        for number in (1, 1, 2, 1):
            outcome = engine.run(
                SourcePlan(text=f"x = {number}", variant=variant, instruments=("here:here",))
            )
            assert outcome.ended == "passed", outcome
        assert engine.trials == 3


def test_an_unusable_workspace_or_number_of_jobs_is_refused(tmp_path: Path) -> None:
    """Before anything is started."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        Engine(tmp_path / "file")
    with pytest.raises(UsageError, match="--jobs"):
        Engine(tmp_path, jobs=-1)


def test_a_closed_engine_says_so(tmp_path: Path) -> None:
    """It doesn't wait for ever, and doesn't start what nobody would end."""
    with Engine(tmp_path, fork=False) as engine:
        pass
    with pytest.raises(FirstFaultError, match="closed"):
        engine.run(SourcePlan(text=""))


# A trial that leaves a child in its session, one that left it, and never ends; all write their ids down.
STUBBORN = """
import os, subprocess, sys, time
inside = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])
outside = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'], start_new_session=True)
with open({pids!r} + '.new', 'w') as file:
    print(os.getpid(), os.getppid(), inside.pid, outside.pid, file=file)
os.rename({pids!r} + '.new', {pids!r})
{then}
"""
ASKING = """
import sys, time
from pathlib import Path
from firstfault.trial.engine import Engine
from firstfault.trial.plan import SourcePlan
workspace, text, fresh = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == 'True'
with Engine(workspace, jobs=1, fork=not fresh) as engine:
    quick = SourcePlan(text='x = 1', new_interpreter=fresh)
    try:
        engine.run_all([quick, SourcePlan(text=text, new_interpreter=fresh)])
    except KeyboardInterrupt:
        before = engine.trials
        print('interrupted', engine.run(quick).ended, engine.trials - before, engine.run(SourcePlan(text='y = 2')).ended, flush=True)
"""


def started(tmp_path: Path, fresh: bool) -> tuple[subprocess.Popen[str], list[int]]:
    """A process with an engine whose trial never ends, and the ids of that trial, its parent and its two children."""
    pids = tmp_path / "pids"
    text = STUBBORN.format(pids=str(pids), then="time.sleep(1000)")
    asking = subprocess.Popen(
        [sys.executable, "-c", ASKING, str(tmp_path / "trials"), text, str(fresh)],
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(pids.exists, "the trial's start")
    return asking, [int(pid) for pid in pids.read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="nothing reaps for a dead parent elsewhere")
@pytest.mark.parametrize(
    ("number", "fresh"), [(signal.SIGKILL, False), (signal.SIGKILL, True), (signal.SIGINT, True)]
)
def test_nothing_survives_whoever_asked(tmp_path: Path, fresh: bool, number: signal.Signals) -> None:
    """Killed by any signal, the asking process takes the zygote, the trial and all its children along.

    Ctrl-C leaves finished outcomes where they are, and an engine that goes on.
    """
    asking, pids = started(tmp_path, fresh)
    asking.send_signal(number)
    said, _ = asking.communicate(timeout=DEADLINE)
    if number == signal.SIGINT:
        assert said == "interrupted passed 0 passed\n"
    for pid in pids:
        wait_until(lambda pid=pid: gone(pid), f"the end of {pid}")  # type: ignore[misc]


def test_a_trials_children_end_with_it(engine: Engine, tmp_path: Path) -> None:
    """Also those that left its session."""
    pids = tmp_path / "pids"
    assert engine.run(SourcePlan(text=STUBBORN.format(pids=str(pids), then=""))).ended == "passed"
    trial, _, *children = (int(pid) for pid in pids.read_text().split())
    for pid in (trial, *children):
        wait_until(lambda pid=pid: gone(pid), f"the end of {pid}")  # type: ignore[misc]
