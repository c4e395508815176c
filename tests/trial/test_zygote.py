"""The zygote: its children compute what new interpreters compute, and it steps back where forking is not safe."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.trial.engine import Engine
from firstfault.trial.outcome import Outcome
from firstfault.trial.plan import SourcePlan
from firstfault.trial.processes import Zygote, zygote_command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="trials are forked on Linux only")

STEP = """
import hashlib, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.Flatten(), torch.nn.Linear(16 * 30 * 30, 10))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(32, 3, 32, 32)), torch.arange(32) % 10)
    loss.backward()
    optimizer.step()
digest = hashlib.sha256()
for parameter in model.parameters():
    digest.update(parameter.detach().numpy().tobytes())
    digest.update(parameter.grad.numpy().tobytes())
print(digest.hexdigest(), torch.get_num_threads())
"""


def printed(outcome: Outcome) -> str:
    assert outcome.ended == "passed", outcome
    return (Path(outcome.folder or "") / "stdout").read_text()


def test_a_forked_trial_computes_what_a_new_interpreter_computes(engine: Engine) -> None:
    """Convolution, matrix product, backward and optimizer: bit for bit, with the same number of threads."""
    forked, fresh = engine.run_all([SourcePlan(text=STEP), SourcePlan(text=STEP, new_interpreter=True)])
    assert printed(forked) == printed(fresh)


def test_loaders_with_workers_run_in_a_forked_trial(engine: Engine) -> None:
    """A DataLoader forks its workers from the trial in turn."""
    text = "import torch\nfrom torch.utils.data import DataLoader\nprint(len(list(DataLoader(torch.arange(10), num_workers=2))))"
    assert printed(engine.run(SourcePlan(text=text, seconds=30))) == "10\n"


def test_a_trial_is_forked_with_torch_and_dynamo_and_nothing_started(engine: Engine) -> None:
    """The first optimizer step finds torch._dynamo imported; no device is started, no variable of the zygote's is left."""
    text = (
        "import os, sys\n"
        "assert {'torch', 'torch._dynamo', 'torch.optim', 'torch.utils.data'} <= set(sys.modules)\n"
        "import torch\n"
        "assert not torch.cuda.is_initialized()\n"
        "assert 'PYTORCH_NVML_BASED_CUDA_CHECK' not in os.environ\n"
        "assert os.getpid() == os.getsid(0)\n"
        "assert len(os.listdir('/proc/self/task')) == 1\n"
    )
    assert engine.run(SourcePlan(text=text)).ended == "passed"


@pytest.mark.slow  # imports torch twice
def test_a_preload_that_computes_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A module that runs a parallel operator while imported would hang every child: trials start without it, and are told so."""
    (tmp_path / "eager.py").write_text("import torch\ntorch.ones(1000, 1000).sum()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (
        caplog.at_level(logging.WARNING, "firstfault.trial"),
        Engine(tmp_path / "trials", jobs=1, preload=["eager"]) as engine,
    ):
        text = "import sys, torch\nassert 'eager' not in sys.modules and 'torch._dynamo' in sys.modules\ntorch.ones(1000, 1000).sum()"
        assert engine.run(SourcePlan(text=text, seconds=20)).ended == "passed"
    assert "without eager" in caplog.text


def test_where_forking_is_not_possible_new_interpreters_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A torch that can't be imported can't be forked either: trials run all the same, and a log line says why."""
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.12 is missing')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with caplog.at_level(logging.WARNING, "firstfault.trial"), Engine(tmp_path / "trials", jobs=1) as engine:
        assert engine.run(SourcePlan(text="")).ended == "passed"
    assert "new interpreters" in caplog.text
    assert "libcudart.so.12 is missing" in caplog.text


def test_trials_go_on_when_the_zygote_dies(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The trial in flight is lost, the following ones are new interpreters."""
    with caplog.at_level(logging.WARNING, "firstfault.trial"), Engine(tmp_path, jobs=1, fork=False) as engine:
        launcher = engine._launcher
        assert isinstance(launcher, Zygote)
        suicidal = SourcePlan(
            text=f"import os, signal, time; os.kill({launcher.pid}, signal.SIGKILL); time.sleep(100)"
        )
        assert engine.run(suicidal).ended == "lost"
        assert engine.run(SourcePlan(text="")).ended == "passed"
    assert "died" in caplog.text


def test_an_operator_of_forty_thousand_elements_makes_a_process_unsafe(engine: Engine) -> None:
    """The census finds OpenMP's threads, so that no child is ever left to hang."""
    text = (
        "import torch\n"
        "from firstfault.trial.zygote import unsafe\n"
        "assert unsafe() is None\n"
        "torch.zeros(1000, 1000).add(1)\n"
        "print(unsafe())\n"
    )
    said = printed(engine.run(SourcePlan(text=text, seconds=30)))
    assert "threads are running" in said or os.cpu_count() == 1


def test_a_canary_that_hangs_is_killed_in_time(engine: Engine) -> None:
    """Where the census sees nothing, a first child that never ends gives the answer."""
    text = (
        "import torch, time\n"
        "from firstfault.trial import zygote\n"
        "zygote.CANARY_SECONDS = 0.2\n"
        "torch.mm = lambda *_: time.sleep(1000)\n"
        "print(zygote.unsafe())\n"
    )
    assert printed(engine.run(SourcePlan(text=text))) == "a first child hung for 0.2 s\n"


def test_what_a_module_prints_while_imported_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imported modules greet and warn on standard output; the engine must not take that for the server's word."""
    (tmp_path / "torch.py").write_text(
        "import os; os.write(1, b'welcome\\n'); print('to torch', flush=True)\nraise ImportError\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Engine(tmp_path / "trials", jobs=1) as engine:
        assert engine.run(SourcePlan(text="")).ended == "passed"
        assert isinstance(engine._launcher, Zygote)
        assert engine._launcher.alive


def test_a_server_whose_input_ends_ends() -> None:
    """Nobody is left to ask, so there is nothing to stay for."""
    done = subprocess.run(
        zygote_command((), fork=False), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=20
    )
    assert (done.returncode, done.stdout) == (0, b'{"serving": true}\n')
