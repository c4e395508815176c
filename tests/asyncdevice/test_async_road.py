"""A training script on the simulated device goes the whole road: recorded, replayed, located."""

from __future__ import annotations

from typing import Any

import pytest

from firstfault.case.store import CaseFolder
from firstfault.steps.locate import locate
from firstfault.steps.replay import replay
from firstfault.trial.engine import Engine

SCRIPT = """
    import sys; sys.path.insert(0, {library!r})
    import simulated_device; simulated_device.install({guard!r})
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    labels = torch.arange(60) % 4
    {change}
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.rand(60, 5), labels), batch_size=6, shuffle=True)
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4)).to("sim")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x.to("sim")), y.to("sim"))  # began here
        loss.backward()
        optimizer.step()
        loss.item()  # seen here
    print("waits:", simulated_device.counts["waits"])
"""


@pytest.fixture
def script(device: str, library: str, guard: str | None) -> Any:
    if device != "sim":
        pytest.skip("the simulated device only")
    return lambda change: SCRIPT.format(library=library, guard=guard, change=change)


def test_a_late_failure_goes_the_whole_road(workplace: Any, script: Any) -> None:
    """Seen at ``item()``, located at the loss, with the label and its sample."""
    workplace.write("train.py", script("labels[37] = 4"))
    done = workplace.firstfault("run", "train.py")
    assert workplace.cases, done.stderr
    (folder,) = workplace.cases
    case = CaseFolder(folder)
    failure = case.facts().failure
    assert failure.seen is not None
    assert (failure.seen.code or "").endswith("# seen here")
    with Engine(workplace.folder / "trials", jobs=1) as engine:
        assert replay(case, engine, runs=1).outcome == "same"
        finding = locate(case, engine)
    assert finding.not_done is None
    assert finding.operator == "aten.nll_loss_forward"
    assert finding.began is not None
    assert (finding.began.code or "").endswith("# began here")
    (element,) = finding.violations[0].elements
    assert (element.value, element.sample, element.leaf) == (4, 37, "[1]")


def test_recording_waits_for_nothing(workplace: Any, script: Any) -> None:
    """A run under firstfault waits for the device exactly as often as the script alone does."""
    workplace.write("train.py", script(""))
    alone, recorded = workplace.python("train.py"), workplace.firstfault("run", "train.py")
    assert alone.stdout.startswith("waits: ")
    assert recorded.stdout == alone.stdout
