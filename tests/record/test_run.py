"""``firstfault run``: the script stays its own, and a failure leaves a case."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

FAILS_ON_A_LABEL = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    labels = torch.arange(40) % 4
    labels[17] = 9
    loader = DataLoader(TensorDataset(torch.randn(40, 3), labels), batch_size=8)
    model = torch.nn.Linear(3, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_output_exit_code_and_traceback_are_the_scripts_own(workplace: Any) -> None:
    """Under firstfault a failing script prints what it prints under python, then a box."""
    workplace.write("train.py", FAILS_ON_A_LABEL)
    plain = workplace.python("train.py")
    recorded = workplace.firstfault("run", "train.py")
    assert recorded.returncode == plain.returncode == 1
    assert recorded.stdout == plain.stdout
    assert recorded.stderr.startswith(plain.stderr)
    box = recorded.stderr.removeprefix(plain.stderr)
    assert "firstfault investigate" in box
    assert all(len(line) <= 80 for line in box.splitlines())


def test_a_case_holds_where_the_run_was(recorded: Callable[[str], dict[str, Any]]) -> None:
    """Loader, pass, batch, samples, completed steps and phase are facts of the case."""
    case = recorded(FAILS_ON_A_LABEL)
    assert case["progress"]["loader"] == case["progress"]["pass"] == 0
    assert (case["progress"]["batch"], case["progress"]["last_completed_step"]) == (2, 2)
    assert case["batch"]["indices"] == list(range(16, 24))
    assert [leaf["shape"] for leaf in case["batch"]["leaves"]] == [[8, 3], [8]]
    assert case["failure"]["phase"] == "forward"
    assert case["failure"]["seen"]["line"] == 12


def test_a_run_that_ends_well_leaves_one_line(workplace: Any) -> None:
    """Nothing is kept, and the folder of cases is gone."""
    workplace.write("train.py", "import torch\nprint('done')")
    done = workplace.firstfault("run", "train.py")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert len(done.stderr.splitlines()) == 1
    assert not (workplace.folder / ".firstfault").exists()


def test_exits_are_not_failures(workplace: Any) -> None:
    """sys.exit, os._exit and a module's exit code go through, without a case."""
    for source, code in (
        ("import sys; sys.exit(7)", 7),
        ("import os; os._exit(5)", 5),
        ("import sys; sys.exit('no')", 1),
    ):
        workplace.write("script.py", source)
        assert workplace.firstfault("run", "script.py").returncode == code
        assert not workplace.cases


def test_ctrl_c_ends_the_run_as_under_python(workplace: Any) -> None:
    """The process dies of the signal, with python's traceback, and leaves no case."""
    workplace.write("wait.py", "print('ready', flush=True)\nimport time\ntime.sleep(60)")
    process = subprocess.Popen(
        [sys.executable, "-m", "firstfault", "run", "wait.py"],
        cwd=workplace.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "firstfault/" not in said
    assert not workplace.cases


def test_main_argv_path_and_pickling_are_pythons(workplace: Any) -> None:
    """The script is ``__main__``: its classes pickle, its neighbours import, its arguments arrive."""
    workplace.write("beside.py", "value = 3")
    workplace.write(
        "script.py",
        """
        import pickle, sys, beside
        class Thing: pass
        assert type(pickle.loads(pickle.dumps(Thing()))) is Thing
        print(__name__, __file__, sys.argv, sys.path[0] == __file__.rpartition('/')[0], beside.value)
        """,
    )
    plain = workplace.python("script.py", "--a", "1")
    assert plain.returncode == 0
    assert workplace.firstfault("run", "script.py", "--a", "1").stdout == plain.stdout


def test_modules_run_like_python_m(workplace: Any) -> None:
    """``-m package`` runs its ``__main__`` with its arguments."""
    workplace.write("package/__init__.py", "")
    workplace.write("package/__main__.py", "import sys; print(__name__, __package__, sys.argv[1:])")
    plain = workplace.python("-m", "package", "x", "-y")
    assert workplace.firstfault("run", "-m", "package", "x", "-y").stdout == plain.stdout


def test_spawned_workers_find_the_script(recorded: Callable[[str], dict[str, Any]]) -> None:
    """A data set of the script's own travels to spawned workers, and the failing sample comes back."""
    case = recorded(
        """
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Numbers(Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, index):
                return torch.tensor(1 // (5 - index))

        if __name__ == "__main__":
            for batch in DataLoader(Numbers(), batch_size=2, num_workers=1, multiprocessing_context="spawn"):
                pass
        """
    )
    fetch = case["failure"]["fetch"]
    assert (fetch["stage"], fetch["sample"], fetch["position"], fetch["worker"]) == ("getitem", 5, 1, 0)
    assert case["batch"]["indices"] == [4, 5]
    assert case["failure"]["phase"] == "data"


def test_a_failure_before_any_loader_is_a_setup_failure(workplace: Any) -> None:
    """The box then sends to doctor."""
    workplace.write(
        "train.py",
        "import torch\nmodel = torch.nn.Linear(2, 2)\nmodel.load_state_dict({'a': torch.zeros(1)})",
    )
    said = workplace.firstfault("run", "train.py").stderr
    assert workplace.case()["failure"]["phase"] == "setup"
    assert "firstfault doctor" in said


def test_an_inference_loop_needs_no_optimizer(recorded: Callable[[str], dict[str, Any]]) -> None:
    """Without gradients and without steps the phase is validation."""
    case = recorded(
        """
        import torch
        from torch.utils.data import DataLoader
        model = torch.nn.Embedding(5, 2)
        with torch.inference_mode():
            for ids in DataLoader(torch.tensor([0, 1, 2, 3, 7]), batch_size=2):
                model(ids)
        """
    )
    assert case["failure"]["phase"] == "validation"
    assert (case["progress"]["batch"], case["progress"]["last_completed_step"]) == (2, 0)
    assert case["batch"]["size"] == 1
    assert case["batch"]["expected_size"] == 2


def test_a_failure_after_the_loop_belongs_to_no_batch(recorded: Callable[[str], dict[str, Any]]) -> None:
    """A loop that was left by ``break`` is over, though its exception comes later."""
    case = recorded(
        """
        import torch
        from torch.utils.data import DataLoader
        for batch in DataLoader(torch.arange(6.0), batch_size=2):
            break
        batch.view(3)
        """
    )
    assert case["failure"]["phase"] == "other"
    assert case["progress"]["batch"] is None


def test_a_swallowed_failure_is_the_first_one(recorded: Callable[[str], dict[str, Any]]) -> None:
    """What the script raises later is kept as a consequence."""
    case = recorded(
        """
        import torch
        from torch.utils.data import DataLoader
        ids = torch.tensor([0, 1, 2, 9, 4, 5])
        model = torch.nn.Embedding(6, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        done = []
        for batch in DataLoader(ids, batch_size=2):
            try:
                model(batch).sum().backward()
                optimizer.step()
                done.append(batch)
            except Exception as error:
                print("skipped", error)
        torch.stack(done).view(3, 2)
        """
    )
    assert case["failure"]["swallowed"]
    assert case["failure"]["exception"]["type"] == "IndexError"
    assert case["progress"]["batch"] == 1
    assert [each["exception"]["type"] for each in case["failure"]["consequences"]] == ["RuntimeError"]


def test_a_handled_exception_that_is_no_failure_leaves_no_case(workplace: Any) -> None:
    """Looking a key up and falling back is not a failure, nor is a retry that succeeds."""
    workplace.write(
        "train.py",
        """
        import torch
        from torch.utils.data import DataLoader
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        cache = {}
        for batch in DataLoader(torch.randn(6, 1), batch_size=2):
            try:
                cache["seen"]
            except KeyError:
                pass
            try:
                model(batch.double())
            except RuntimeError:
                loss = model(batch).sum()
            loss.backward()
            optimizer.step()
        """,
    )
    done = workplace.firstfault("run", "train.py")
    assert done.returncode == 0
    assert not workplace.cases


def test_a_missing_script_is_one_clear_line(workplace: Any) -> None:
    """Bad usage ends with 2 and leaves nothing."""
    done = workplace.firstfault("run", "nowhere.py")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "nowhere.py" in done.stderr
    assert not (workplace.folder / ".firstfault").exists()


def test_a_case_folder_that_cannot_be_written_does_not_stop_the_run(workplace: Any) -> None:
    """The case goes to the temporary folder, and a line says so."""
    workplace.write("train.py", FAILS_ON_A_LABEL)
    (workplace.folder / "blocked").write_text("a file, not a folder")
    done = workplace.firstfault("run", "--cases", "blocked/cases", "train.py", TMPDIR=str(workplace.folder))
    assert done.returncode == 1
    assert "can't be written" in done.stderr
    kept = list(workplace.folder.glob("firstfault-*/*/case.json"))
    assert len(kept) == 1
    assert json.loads(kept[0].read_text())["progress"]["batch"] == 2


def test_nothing_but_the_recorder_is_imported_for_a_run(workplace: Any) -> None:
    """Starting a script loads neither torch nor what only later steps need."""
    workplace.write(
        "script.py",
        "import sys; print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'rich', 'jinja2', 'numpy', 'safetensors'}))",
    )
    assert workplace.firstfault("run", "script.py").stdout == "[]\n"


PRINTS_AN_ASSERTION = """
    import os
    line = b"/pytorch/aten/src/ATen/native/cuda/Loss.cu:245: nll_loss: block: [0,0,0], thread: [%d,0,0] Assertion `t >= 0 && t < n_classes` failed.\\n"
    for thread in range(3):
        os.write(2, line % thread)
    raise RuntimeError("CUDA error: device-side assert triggered")
"""


def test_lines_that_a_device_prints_past_python_are_kept(workplace: Any) -> None:
    """Through a pipe, the script's output arrives whole, and the case holds the first assertion with its count."""
    workplace.write("train.py", PRINTS_AN_ASSERTION)
    plain = workplace.python("train.py")
    done = workplace.firstfault("run", "train.py", FIRSTFAULT_STDERR="copy")
    assert done.stderr.startswith(plain.stderr)
    (asserted,) = workplace.case()["failure"]["device_asserts"]
    assert (asserted["condition"], asserted["thread"], asserted["count"]) == (
        "t >= 0 && t < n_classes",
        [0, 0, 0],
        3,
    )
    shown = json.loads(workplace.firstfault("show", "--json").stdout)
    assert shown["failure"]["fault"] == "index_out_of_domain"


def test_standard_error_in_a_file_needs_no_copy(workplace: Any) -> None:
    """What was in the file before the run is not the run's."""
    workplace.write("train.py", PRINTS_AN_ASSERTION)
    log = workplace.folder / "log"
    log.write_text("a.cu:1: f: block: [0,0,0], thread: [0,0,0] Assertion `older` failed.\n")
    with log.open("ab") as file:
        command = [sys.executable, "-m", "firstfault", "run", "train.py"]
        subprocess.run(command, cwd=workplace.folder, stderr=file, stdout=subprocess.DEVNULL, timeout=60)
    (asserted,) = workplace.case()["failure"]["device_asserts"]
    assert asserted["condition"] == "t >= 0 && t < n_classes"


def test_a_terminal_stays_a_terminal(workplace: Any) -> None:
    """Progress bars ask for it."""
    import pty

    workplace.write("script.py", "import sys; sys.stderr.write(f'{sys.stderr.isatty()}')")
    seen = bytearray()

    def read(descriptor: int) -> bytes:
        data = os.read(descriptor, 1024)
        seen.extend(data)
        return data

    environment = {"FIRSTFAULT_STDERR": "copy"}
    old = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        pty.spawn(
            [sys.executable, "-m", "firstfault", "run", str(workplace.folder / "script.py")],
            read,
            lambda _: b"",
        )
    finally:
        for name, value in old.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)
    assert b"True" in seen
    assert b"no failure" in seen
