"""The operator trace: lines, modules, and the tie between backward and forward."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from firstfault.ops import trace as trace_
from firstfault.ops.trace import Record, Trace, frame_at


def _line(record: Record) -> str:
    frame = frame_at(record.place)
    assert frame is not None
    return frame.code or ""


def _named(trace: Trace, name: str) -> list[Record]:
    return [record for record in trace.records if record.name == name]


class Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x) * 2  # inner line


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.blocks = nn.ModuleList([Inner(), Inner()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)  # outer line
        for block in self.blocks:
            x = block(x)
        return x


def test_lines_and_modules() -> None:
    """Each operator has the innermost line of the user's and the path of the innermost module."""
    model = Outer()
    with Trace() as trace:
        model(torch.ones(2, 3))
    (linear,) = _named(trace, "aten.addmm")
    assert _line(linear).endswith("# outer line")
    assert trace.module_name(linear.module) == "first (Linear)"
    sigmoids = _named(trace, "aten.sigmoid")
    assert [trace.module_name(record.module) for record in sigmoids] == [
        "blocks.0 (Inner)",
        "blocks.1 (Inner)",
    ]
    assert all(_line(record).endswith("# inner line") for record in sigmoids)


def test_an_operator_outside_modules_has_none() -> None:
    """A line of the training loop has a place and no module."""
    with Trace() as trace:
        torch.zeros(2) + 1
    record = _named(trace, "aten.add")[0]
    assert _line(record) == "torch.zeros(2) + 1"
    assert record.module is None


def test_backward_knows_its_forward_line() -> None:
    """A backward operator runs at the line of ``backward()`` and knows line and module of its forward."""
    model = Outer()
    with Trace() as trace:
        loss = model(torch.ones(2, 3)).sum()
        loss.backward()  # backward line
    for record in _named(trace, "aten.sigmoid_backward"):
        assert _line(record).endswith("# backward line")
        forward = trace.forward_of(record.sequence)
        assert forward is not None
        frame = frame_at(forward[0])
        assert frame is not None
        assert frame.code is not None
        assert frame.code.endswith("# inner line")
        assert forward[1] == "aten.sigmoid"
    assert [trace.module_name(r.module) for r in _named(trace, "aten.sigmoid_backward")] == [
        "blocks.1 (Inner)",
        "blocks.0 (Inner)",
    ]


def test_every_backward_operator_is_tied_to_the_operator_that_it_differentiates() -> None:
    """Node by node, the trace's tie agrees with autograd's own names."""
    torch.manual_seed(0)
    x = torch.rand(4, 5, requires_grad=True)
    with Trace() as trace:
        y = (x.exp() * x).log_softmax(1)
        y = torch.cat([y, y.t().reshape(4, 5)]).mean(0)
        loss = (y[1:3] ** 2).sum() + nn.functional.gelu(x).norm()
        loss.backward()
    expected = {
        "aten.exp": "Exp",
        "aten.mul": "Mul",
        "aten._log_softmax": "LogSoftmax",
        "aten.cat": "Cat",
        "aten.mean": "Mean",
    }
    expected |= {
        "aten.slice": "Slice",
        "aten.pow": "Pow",
        "aten.sum": "Sum",
        "aten.gelu": "Gelu",
        "aten.t": "T",
    }
    waiting, seen = [loss.grad_fn], set()
    checked = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [following for following, _ in node.next_functions]
        step = trace.forward_of(node._sequence_nr())
        if step is not None and step[1] in expected:
            assert node.name().startswith(expected[step[1]]), (node.name(), step)
            checked.add(step[1])
    assert checked == set(expected)


def test_second_derivatives_lead_to_the_first_forward() -> None:
    """What backward itself computes, with create_graph, belongs to the forward line that it came from."""
    x = torch.ones(3, requires_grad=True)
    with Trace() as trace:
        y = x.sin().sum()  # the forward
        (slope,) = torch.autograd.grad(y, x, create_graph=True)
        slope.sum().backward()  # the second backward
    last = _named(trace, "aten.sin")[-1]
    frames = [
        frame_at(step[0]) for record in [last] if (step := trace.forward_of(record.sequence)) is not None
    ]
    assert [frame.code for frame in frames if frame] == ["y = x.sin().sum()  # the forward"]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x * 2

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad * 2  # the user's own backward


def test_the_users_own_backward_is_a_line_of_the_user() -> None:
    """An operator inside a custom Function's backward is at that very line."""
    x = torch.ones(3, requires_grad=True)
    with Trace() as trace:
        y = Doubled.apply(x)  # the use
        y.sum().backward()
    record = _named(trace, "aten.mul")[-1]
    assert _line(record).endswith("# the user's own backward")
    forward = trace.forward_of(record.sequence)
    assert forward is not None
    frame = frame_at(forward[0])
    assert frame is not None
    assert frame.code == "return x * 2"


def test_recomputed_forward_is_at_the_users_line() -> None:
    """What activation checkpointing computes again in backward is at its own forward line."""
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(2, 3, requires_grad=True)
    with Trace() as trace:
        checkpoint(Inner(), x, use_reentrant=False).sum().backward()
    assert [_line(record).endswith("# inner line") for record in _named(trace, "aten.sigmoid")] == [
        True,
        True,
    ]


def test_the_error_and_its_operator_are_kept() -> None:
    """The last operator that raised is kept with its exception."""
    with Trace() as trace, pytest.raises(RuntimeError) as raised:
        torch.ones(2, 3) @ torch.ones(2, 3)
    assert trace.raised is not None
    record, error = trace.raised
    assert record.name == "aten.mm"
    assert error is raised.value


def test_generated_code_is_nobodys_line() -> None:
    """Code that torch.fx wrote is not the user's; the line that called it is."""
    graph = torch.fx.symbolic_trace(Inner())
    with Trace() as trace:
        graph(torch.ones(2))  # the call
    assert _line(_named(trace, "aten.sigmoid")[0]).endswith("# the call")


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records hold at most the stated bytes of results; the oldest go first."""
    monkeypatch.setattr(trace_, "MAX_KEPT_BYTES", 4_000)
    with Trace() as trace:
        for n in range(20):
            torch.full((100,), float(n))
    kept = _named(trace, "aten.full")
    assert [float(record.result[0]) for record in kept] == list(range(10, 20))
    assert trace.count == 40  # each is followed by a detach, which holds nothing of its own


def test_nothing_is_kept_when_asked() -> None:
    """A light trace has names and lines and holds on to no tensor."""
    with Trace(keep=False) as trace:
        torch.ones(3).add_(1)
    assert [record.name for record in trace.records] == ["aten.ones", "aten.add_"]
    assert all(
        record.result is None and record.args == () and record.written == () for record in trace.records
    )


def test_a_light_trace_keeps_the_arguments_of_what_raised() -> None:
    """The failing call's arguments are there all the same."""
    with Trace(keep=False) as trace, pytest.raises(RuntimeError):
        torch.ones(2) + torch.ones(3)
    assert trace.raised is not None
    assert [tuple(each.shape) for each in trace.raised[0].args] == [(2,), (3,)]


def test_results_are_what_they_would_be() -> None:
    """Training under the trace gives bit for bit the weights that it gives without."""

    def train() -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.rand(5, 4)).pow(2).mean().backward()
            optimizer.step()
        return nn.utils.parameters_to_vector(model.parameters()).detach()

    plain = train()
    with Trace():
        traced = train()
    assert torch.equal(plain, traced)


def test_threads_do_not_mix_up_lines() -> None:
    """Sequence numbers of another thread, which counts on its own, don't overwrite the traced thread's lines."""
    x = torch.ones(3, requires_grad=True)
    with Trace() as trace:
        y = x.exp().sum()

        def other() -> None:
            with trace:
                torch.ones(2, requires_grad=True).cos()

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        y.backward()
    names = {step[1] for r in trace.records if (step := trace.forward_of(r.sequence)) is not None}
    assert "aten.cos" not in names
    assert names == {"aten.sum", "aten.exp"}
