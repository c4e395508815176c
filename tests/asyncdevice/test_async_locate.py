"""On a device that reports late: where a failure is seen differs from where it began, and locating finds where."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from async_programs import PLAIN, SYNCHRONISED, located, seen

from firstfault.trial.outcome import Outcome

Run = Callable[..., Outcome]

TRAINING = """
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).to(DEVICE)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    batch = [torch.rand(3, 4), torch.tensor([2, 0, 7])]
    batch_handed_out(batch, [40, 41, 42])
    x, y = (each.to(DEVICE) for each in batch)
    loss = F.cross_entropy(net(x), y)  # began here
    loss.backward()
    optimizer.step()
    print(loss.item())  # seen here
"""


def test_seen_is_not_where_it_began(run: Run) -> None:
    """Without a trace the failure shows at the first line that waits, and the assertion on standard error."""
    outcome = run(TRAINING)
    assert seen(outcome).endswith("# seen here")
    assert outcome.failure is not None
    assert outcome.failure.exception is not None
    assert "device-side assert triggered" in outcome.failure.exception.message
    assert "Assertion `t >= 0 && t < n_classes` failed." in outcome.stderr_tail


def test_a_contract_names_the_operator_before_the_launch(run: Run) -> None:
    """Checked on its way to the device: the true operator and line, the element, its value and its sample."""
    found = located(run(TRAINING, PLAIN))
    assert found.operator == "aten.nll_loss_forward"
    assert found.began is not None
    assert (found.began.code or "").endswith("# began here")
    assert found.certain
    (violation,) = found.violations
    (element,) = violation.elements
    assert (element.value, element.position, element.sample, element.leaf) == (7, 2, 42, "[1]")


@pytest.mark.parametrize("way", ["synchronised", "blocking"])
def test_waiting_names_the_operator(run: Run, way: str) -> None:
    """Waiting after each operator, or launches that wait, bring the error to the operator itself."""
    outcome = run(TRAINING, SYNCHRONISED) if way == "synchronised" else run(TRAINING, PLAIN, blocking=True)
    found = located(outcome)
    assert found.operator == "aten.nll_loss_forward"
    assert found.began is not None
    assert (found.began.code or "").endswith("# began here")
    assert seen(outcome).endswith("# began here")


def test_backward(run: Run) -> None:
    """An operator that asserts in backward is named with the forward line that it belongs to."""
    source = """
        class Lookup(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2  # the forward
            @staticmethod
            def backward(ctx, grad):
                rows = torch.tensor([0, 9], device=DEVICE)
                return grad + grad[rows].sum()  # began here
        x = torch.ones(3, device=DEVICE, requires_grad=True)
        Lookup.apply(x.exp()).sum().backward()
        print(x.grad.cpu())  # seen here
    """
    assert seen(run(source)).endswith("# seen here")
    for instrument in (PLAIN, SYNCHRONISED):
        found = located(run(source, instrument))
        assert found.operator == "aten.index"
        assert found.began is not None
        assert (found.began.code or "").endswith("# began here")
        assert found.forward is not None
        assert (found.forward.code or "").endswith("# the forward")
        assert [element.value for element in found.violations[0].elements] == [9]


def test_backward_of_torchs_own(run: Run, device: str, needs_guard: None) -> None:
    """A kernel of autograd's own that fails shows the line that called backward, and the forward line and module."""
    if device != "sim":
        pytest.skip("a real kernel can't be broken on purpose")
    source = """
        simulated_device.break_operator("sigmoid_backward")
        class Gate(nn.Module):
            def forward(self, x):
                return torch.sigmoid(x) * x  # the forward
        x = torch.ones(3, device=DEVICE, requires_grad=True)
        Gate()(x).sum().backward()  # the backward
        x.grad.cpu()  # seen here
    """
    assert seen(run(source)).endswith("# seen here")
    found = located(run(source, SYNCHRONISED))
    assert found.operator == "aten.sigmoid_backward"
    assert found.began is not None
    assert (found.began.code or "").endswith("# the backward")
    assert found.forward is not None
    assert (found.forward.code or "").endswith("# the forward")
    assert found.module == "model (Gate)"


def test_an_operator_without_a_contract(run: Run, device: str) -> None:
    """Where no contract speaks, a late report is called uncertain, and waiting settles it."""
    if device != "sim":
        pytest.skip("a real kernel can't be broken on purpose")
    source = """
        simulated_device.break_operator("exp", after=2)
        x = torch.ones(3, device=DEVICE)
        for _ in range(2):
            x = x.exp()
        x = x.exp()  # began here
        x = x.log()
        x.tolist()  # seen here
    """
    late = located(run(source, PLAIN))
    assert not late.certain
    found = located(run(source, SYNCHRONISED))
    assert found.certain
    assert found.operator == "aten.exp"
    assert found.began is not None
    assert (found.began.code or "").endswith("# began here")


STREAMS = """
    table = torch.rand(5, 2, device=DEVICE)
    ids = torch.tensor([1, 3, 8, 0])
    if DEVICE == "cuda":
        ids = ids.pin_memory()
    batch_handed_out([ids], [10, 11, 12, 13])
    side = getattr(torch, DEVICE).Stream()
    with getattr(torch, DEVICE).stream(side):
        moved = ids.to(DEVICE, non_blocking=True)
        rows = F.embedding(moved, table)  # began here
        doubled = rows * 2
    other = torch.ones(3, device=DEVICE) + 1
    getattr(torch, DEVICE).current_stream().wait_stream(side)
    total = doubled.sum() + other.sum()
    print(total.item())  # seen here
"""


def test_streams_and_non_blocking_copies(run: Run) -> None:
    """A kernel on another stream, fed by a copy that doesn't wait: the operator, the line and the sample all the same."""
    assert seen(run(STREAMS)).endswith("# seen here")
    for instrument in (PLAIN, SYNCHRONISED):
        found = located(run(STREAMS, instrument))
        assert found.operator == "aten.embedding"
        assert found.began is not None
        assert (found.began.code or "").endswith("# began here")
        (element,) = found.violations[0].elements
        assert (element.value, element.position, element.sample) == (8, 2, 12)


def test_changes_on_the_device_are_followed(run: Run) -> None:
    """Values changed on the device are named, and followed back to the host's batch."""
    source = """
        labels = torch.tensor([1, 2, 3, 4])
        batch_handed_out(labels, [5, 6, 7, 8])
        y = labels.to(DEVICE).flip(0) + 1
        F.cross_entropy(torch.zeros(4, 5, device=DEVICE), y).item()
    """
    found = located(run(source, PLAIN))
    (element,) = found.violations[0].elements
    assert (element.index, element.value, element.sample) == ((0,), 5, 8)
    assert element.changed_by == ("aten.add: 4 -> 5",)


def test_what_a_network_computed_on_the_device(run: Run) -> None:
    """A probability out of range that a network computed is its row's sample's."""
    source = """
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)).to(DEVICE)
        x = torch.zeros(4, 3)
        x[2] = 500.0
        batch_handed_out([x, torch.ones(4)], [30, 31, 32, 33])
        out = net(x.to(DEVICE)).abs().squeeze(1)
        F.binary_cross_entropy(out, torch.ones(4, device=DEVICE)).item()
    """
    found = located(run(source, PLAIN))
    assert found.operator == "aten.binary_cross_entropy"
    (element,) = found.violations[0].elements
    assert (element.index, element.position, element.sample, element.leaf) == ((2,), 2, 32, "[0]")


def test_the_first_of_several_is_the_cause(run: Run) -> None:
    """Two broken contracts in a row: the first is the one that the device fails of."""
    source = """
        table = torch.zeros(4, 2, device=DEVICE)
        first = F.embedding(torch.tensor([6], device=DEVICE), table)  # began here
        second = F.embedding(torch.tensor([9], device=DEVICE), table)
        (first + second).cpu()
    """
    found = located(run(source, PLAIN))
    assert found.began is not None
    assert (found.began.code or "").endswith("# began here")
    assert found.violations[0].elements[0].value == 6


def test_a_dead_device_is_never_used_again(run: Run) -> None:
    """After an assertion every use of the device in that process fails; the next trial has a process of its own."""
    source = """
        x = torch.ones(3, device=DEVICE)
        try:
            x[torch.tensor([5], device=DEVICE)].cpu()
        except RuntimeError:
            pass
        x.cpu()  # still dead
    """
    outcome = run(source)
    assert seen(outcome).endswith("# still dead")
    again = run("print(torch.ones(3, device=DEVICE).sum().item())")
    assert again.ended == "passed"


def test_nothing_waits_outside_of_a_trial(run: Run, device: str) -> None:
    """Without an instrument a step waits only where the script does; a contract costs one wait, nothing else does."""
    if device != "sim":
        pytest.skip("a real device doesn't count its waits")
    source = """
        net = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 3)).to(DEVICE)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        ids = torch.tensor([[1, 2], [3, 4]]).to(DEVICE)
        before = simulated_device.counts["waits"]
        for _ in range(3):
            optimizer.zero_grad()
            net(ids).pow(2).mean().backward()
            optimizer.step()
        raise SystemExit(simulated_device.counts["waits"] - before)
    """
    assert run(source).exit_code == 0
    assert (run(source, SYNCHRONISED).exit_code or 0) > 50
    assert (run(source, PLAIN).exit_code or 0) == 3  # one for each use of the table
