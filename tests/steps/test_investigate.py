"""The whole road, as a user walks it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

LABELS_AND_WORKERS = """
    import random
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Pictures(Dataset):
        def __len__(self):
            return 60
        def __getitem__(self, index):
            picture = torch.rand(1, 6, 6)
            if random.random() < 0.5:
                picture = picture.flip(2)
            return {"picture": picture, "label": 7 if index == 41 else index % 3}

    def main():
        torch.manual_seed(5)
        random.seed(5)
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in DataLoader(Pictures(), batch_size=8, shuffle=True, num_workers=2):
            loss = torch.nn.functional.cross_entropy(model(batch["picture"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    if __name__ == "__main__":
        main()
"""


def test_from_a_crash_to_a_located_explained_shrunk_case(
    workplace: Any, recorded: Callable[[str], dict[str, Any]]
) -> None:
    """One command finds the batch again, the operator, the element, the sample, and a script that fails on its own."""
    facts = recorded(LABELS_AND_WORKERS)
    done = workplace.firstfault("investigate", "--json")
    assert done.returncode == 0, done.stderr
    case = json.loads(done.stdout)
    findings = case["findings"]
    assert case["failure"]["fault"] == "index_out_of_domain"
    assert (findings["replay"]["outcome"], findings["replay"]["batch_identical"]) == ("same", True)
    assert findings["replay"]["same"] == findings["replay"]["runs"]
    assert findings["locate"]["operator"] == "aten.nll_loss_forward"
    element = findings["locate"]["violations"][0]["elements"][0]
    assert (element["value"], element["sample"], element["leaf"]) == (7, 41, "['label']")
    assert element["position"] == facts["batch"]["indices"].index(41)
    assert (findings["shrink"]["samples"], findings["shrink"]["sufficient"]) == ([41], "culprits")
    (folder,) = workplace.cases
    alone = subprocess.run([sys.executable, "-I", str(folder / "repro.py")], capture_output=True, text=True)
    assert alone.returncode == 1, alone.stderr
    assert len((folder / "repro.py").read_text().splitlines()) <= 30
    assert not (folder / "trials").exists()
    assert not list((folder / "private").glob("batch.*")), "values that were rebuilt from ids are removed"
    assert "<html" in (folder / "report.html").read_text()
    assert str(workplace.folder) not in (folder / "repro.py").read_text()


def test_a_failure_that_is_gone_is_not_reproduced(
    workplace: Any, recorded: Callable[[str], dict[str, Any]]
) -> None:
    """After a fix the replay says so, with exit code 1."""
    recorded(LABELS_AND_WORKERS)
    script = workplace.folder / "train.py"
    script.write_text(script.read_text().replace("7 if index == 41 else", ""))
    done = workplace.firstfault("replay", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["outcome"] == "passed"


def test_a_failure_that_needs_what_came_before(
    workplace: Any, recorded: Callable[[str], dict[str, Any]]
) -> None:
    """Weights that diverged are not in the batch: everything before it is run, and the overflow is shown on its own."""
    recorded(
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        torch.manual_seed(0)
        x = torch.randn(64, 2)
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=40.0)
        for a, b in DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4):
            loss = (model(a) - b).pow(2).mean()
            if not torch.isfinite(loss):
                raise RuntimeError(f"the loss is {loss.item()}")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    )
    done = workplace.firstfault("investigate", "--json")
    assert done.returncode == 0, done.stderr
    case = json.loads(done.stdout)
    assert case["failure"]["fault"] == "nonfinite"
    assert case["findings"]["replay"]["plan"] == "everything up to the batch"
    assert case["findings"]["shrink"]["sufficient"] == "history"


def test_the_demo_walks_the_whole_road(workplace: Any) -> None:
    """A new user's first command ends well and leaves a report."""
    done = workplace.firstfault("demo")
    assert done.returncode == 0, done.stderr
    assert "report" in done.stdout
    assert list((workplace.folder / "firstfault-demo" / ".firstfault").glob("*/report.html"))


def test_doctor_checks_the_processor(workplace: Any) -> None:
    """The CPU computes, and the versions are told."""
    done = workplace.firstfault("doctor", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["healthy"], found["devices"][0]["device"]) == (0, True, "cpu")
    assert found["environment"]["torch"]
