"""The locating instrument on small programs: operator, lines, arguments, elements."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firstfault.case.findings import Locate
from firstfault.ops.locate import locate_instrument
from firstfault.trial import events

Find = Callable[..., Locate]


@pytest.fixture
def find(tmp_path: Path) -> Find:
    """Run a program in this process under the instrument and give the finding at its failure."""

    def run(source: str, instrument: Any = locate_instrument) -> Locate:
        path = tmp_path / "program.py"
        path.write_text(
            "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n" + textwrap.dedent(source)
        )
        code = compile(path.read_text(), str(path), "exec")
        with instrument(tmp_path, None):
            try:
                exec(
                    code,
                    {
                        "__name__": "program",
                        "handed_out": events.batch_handed_out,
                        "fetched": events.sample_fetched,
                    },
                )
            except Exception as error:
                events.failed(error)
        return msgspec.json.decode((tmp_path / "locate.json").read_bytes(), type=Locate)

    return run


def code(frame: Any) -> str:
    assert frame is not None
    return frame.code or ""


def test_a_class_index_out_of_range(find: Find) -> None:
    """The operator, the line, the arguments and the element at fault with its sample."""
    found = find(
        """
        batch = [torch.rand(3, 4), torch.tensor([1, 4, 0])]
        handed_out(batch, [70, 71, 72])
        def step(scores, y):
            return F.cross_entropy(scores, y)  # here
        step(*batch)
        """
    )
    assert found.operator == "aten.nll_loss_forward"
    assert code(found.began).endswith("# here")
    target = next(argument for argument in found.arguments if argument.name == "target")
    assert (target.shape, target.dtype, target.maximum, target.origin) == ((3,), "int64", 4.0, "batch[1]")
    (violation,) = found.violations
    assert violation.count == 1
    assert (violation.elements[0].value, violation.elements[0].sample, violation.elements[0].position) == (
        4,
        71,
        1,
    )


@pytest.mark.parametrize(
    ("statement", "operator"),
    [
        ("torch.zeros(3, 4).gather(1, torch.tensor([[9]]))", "aten.gather"),
        ("torch.zeros(3, 4).index_select(0, torch.tensor([1, 9]))", "aten.index_select"),
        ("torch.zeros(3, 4)[torch.tensor([1, 9])]", "aten.index"),
        ("F.embedding(torch.tensor([1, 9]), torch.zeros(3, 4))", "aten.embedding"),
        ("F.binary_cross_entropy(torch.tensor([1.5]), torch.tensor([1.0]))", "aten.binary_cross_entropy"),
        (
            "F.nll_loss(torch.zeros(1, 3, 2, 2), torch.full((1, 2, 2), 7), weight=torch.ones(3), ignore_index=255)",
            "aten.nll_loss2d_forward",
        ),
        ("torch.zeros(2, 5).scatter_(1, torch.tensor([[9]]), 1.0)", "aten.scatter_"),
    ],
)
def test_elements_at_fault_are_named(find: Find, statement: str, operator: str) -> None:
    """Each of these operators has its contract broken by one element, which is named with its value."""
    found = find(statement)
    assert found.operator == operator
    assert [element.value for violation in found.violations for element in violation.elements] in (
        [9],
        [1.5],
        [7] * 4,
    )


@pytest.mark.parametrize(
    ("statement", "operator"),
    [
        ("torch.stack([torch.zeros(2), torch.zeros(3)])", "aten.stack"),
        ("torch.cat([torch.zeros(2, 2), torch.zeros(2, 3)])", "aten.cat"),
        ("torch.zeros(0, 3).max(0)", "aten.max"),
        ("torch.ones(6).reshape(4, 2)", "aten.view"),
        ("torch.ones(2, 3) @ torch.ones(2, 3)", "aten.mm"),
        ("nn.Linear(3, 4)(torch.ones(2, 5))", "aten.addmm"),
        ("F.conv2d(torch.zeros(1, 3, 8, 8), torch.zeros(4, 4, 3, 3))", "aten.convolution"),
        ("torch.ones(3) + torch.ones(4)", "aten.add"),
        ("torch.linalg.cholesky(-torch.eye(3))", "aten.linalg_cholesky_ex"),
        # raised in C++ before anything is dispatched
        ("x = torch.ones(2, 3)\nF.conv2d(x, torch.zeros(4, 4, 3, 3))", "aten.conv2d"),
        ("x = torch.ones(2)\nx.item()", "aten.item"),
        ("x = torch.ones(3)\nx[7]", "aten.index"),
        ("x = torch.ones(3, requires_grad=True)\nx.add_(1)", "aten.add_"),
        ("x = torch.ones(3)\ntorch.add(x, 'a')", "aten.add"),
        ("y = torch.tensor([0, 5])\nF.one_hot(y, 3)", "aten.one_hot"),
        ("x = torch.ones(3)\ntorch.repeat_interleave(x, torch.tensor([1, 2]))", "aten.repeat_interleave"),
        ("x = torch.ones(2, 3)\ny = torch.ones(4, 3)\ntorch.einsum('ij,jk->ik', x, y)", "aten.einsum"),
        ("F.cross_entropy(torch.ones(4, 3), torch.zeros(5).long())", "aten.cross_entropy_loss"),
        # raised by Python code
        ("F.mse_loss(torch.ones(4, 3), torch.ones(5, 3))", "aten.broadcast_tensors"),
        ("nn.LSTM(3, 4)(torch.zeros(2, 3, 3), (torch.zeros(1, 4, 4), torch.zeros(1, 4, 4)))", None),
        ("nn.BatchNorm1d(3)(torch.ones(1, 3))", None),
        ("raise ValueError('the loss is odd')", None),
        ("x = torch.ones(3, requires_grad=True)\nx.numpy()", None),
        ("int('a')", None),
    ],
)
def test_the_operator_that_raised(find: Find, statement: str, operator: str | None) -> None:
    """Whether aten, C++ before aten, or Python raised: the operator is named only when there is one; the line always."""
    found = find(statement)
    assert found.operator == operator
    assert code(found.began) == statement.splitlines()[-1]


def test_what_could_be_read_of_a_call(find: Find) -> None:
    """A call that never reached an operator still shows its arguments, as far as the frame's variables tell."""
    found = find("x = torch.ones(2, 3)\nweight = torch.zeros(4, 4, 3, 3)\nF.conv2d(x, weight)")
    assert [(argument.name, argument.shape) for argument in found.arguments] == [
        ("input", (2, 3)),
        ("weight", (4, 4, 3, 3)),
    ]


def test_a_change_in_place(find: Find) -> None:
    """The line that changed the tensor, and the line of the forward operator that needs it."""
    found = find(
        """
        class Block(nn.Module):
            def forward(self, x):
                y = torch.sigmoid(x)  # the first to save it
                z = y * y.detach()  # the one that fails first
                y.mul_(0.5)  # the change
                y.detach()
                return z + y
        Block()(torch.ones(3, requires_grad=True)).sum().backward()
        """
    )
    assert found.operator == "aten.mul_"
    assert code(found.changed_at).endswith("# the change")
    assert code(found.began).endswith("# the change")
    assert code(found.forward).endswith("# the one that fails first")
    assert found.module == "model (Block)"


def test_an_optimizer_step_between_forward_and_backward(find: Find) -> None:
    """Weights that an optimizer changed too early: the line of ``step()`` and the layer that had saved them."""
    found = find(
        """
        net = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        first = net(torch.ones(2, 3)).sum()
        second = net(torch.ones(2, 3)).pow(2).sum()  # the second loss
        first.backward(retain_graph=True)
        optimizer.step()  # the step
        second.backward()
        """
    )
    assert code(found.changed_at).endswith("# the step")
    assert code(found.forward).endswith("# the second loss")
    assert found.module == "2 (Linear)"


def test_a_freed_graph(find: Find) -> None:
    """A second pass through a freed graph: the line that freed it, and the line that made it."""
    found = find(
        """
        x = torch.ones(3, requires_grad=True)
        hidden = x.exp()  # the shared part
        hidden.sum().backward()  # frees it
        hidden.mul(2).sum().backward()  # goes through it again
        """
    )
    assert code(found.began).endswith("# goes through it again")
    assert code(found.changed_at).endswith("# frees it")
    assert code(found.forward).endswith("# the shared part")
    assert found.operator == "aten.exp"


def test_a_backward_operator_that_raises(find: Find) -> None:
    """Backward that fails in an operator names it, and the forward line."""
    found = find(
        """
        class Wrong(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2  # the forward
            @staticmethod
            def backward(ctx, grad):
                return grad @ grad.new_ones(7)  # the backward
        Wrong.apply(torch.ones(3, requires_grad=True)).sum().backward()
        """
    )
    assert found.operator == "aten.dot"
    assert code(found.began).endswith("# the backward")
    assert code(found.forward).endswith("# the forward")


def test_a_swallowed_error_is_not_taken_for_the_failure(find: Find) -> None:
    """An error that the script handled earlier has nothing to do with the one that ended it."""
    found = find(
        """
        try:
            torch.ones(2) + torch.ones(3)
        except RuntimeError:
            pass
        raise ValueError("later")
        """
    )
    assert found.operator is None


def test_an_error_raised_from_the_first(find: Find) -> None:
    """``raise … from error`` is located at the error that it came from."""
    found = find(
        """
        try:
            torch.ones(2) + torch.ones(3)  # here
        except RuntimeError as error:
            raise ValueError("wrapped") from error
        """
    )
    assert found.operator == "aten.add"
    assert code(found.began).endswith("# here")


def test_where_a_tensor_that_does_not_fit_was_made(find: Find) -> None:
    """A dtype mismatch shows the line that made the odd tensor, and what each argument is."""
    found = find(
        """
        net = nn.Linear(3, 2)
        scale = torch.full((2, 3), 2.0).double()  # made here
        net(scale)
        """
    )
    assert found.operator == "aten.addmm"
    assert code(found.made_at).endswith("# made here")
    origins = {argument.name: argument.origin for argument in found.arguments}
    assert origins["self"] == "parameter bias"
    assert origins["mat2"] == "parameter weight"
    assert origins["mat1"] is not None
    assert origins["mat1"].startswith("aten._to_copy at program.py:")


def test_compiled_code_is_located_as_it_was_written(find: Find) -> None:
    """A torch.compile'd function runs eagerly in a trial and has lines and operators."""
    found = find(
        """
        @torch.compile
        def loss(scores, y):
            return F.cross_entropy(scores, y)  # here
        loss(torch.zeros(2, 3), torch.tensor([0, 3]))
        """
    )
    assert found.operator == "aten.nll_loss_forward"
    assert code(found.began).endswith("# here")


def test_batches_do_not_mix(find: Find) -> None:
    """Only the batch in progress is searched: the same memory of an earlier batch is not taken for it."""
    found = find(
        """
        table = nn.Embedding(5, 2)
        for n in range(3):
            samples = [torch.tensor([n, 3 * n]), torch.tensor([0, 1])]
            for position, sample in enumerate(samples):
                fetched(position, 10 * n + position, sample)
            batch = torch.stack(samples)
            handed_out(batch, [10 * n, 10 * n + 1])
            table(batch)
        """
    )
    (violation,) = found.violations
    assert (violation.elements[0].sample, violation.elements[0].value, violation.elements[0].within) == (
        20,
        6,
        (1,),
    )
    assert found.trail[-1].operator == "aten.embedding"
    assert len(found.trail) < 6
