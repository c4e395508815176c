"""What traces rely on in torch beyond its documented interface; a failure here names what another version changed."""

from __future__ import annotations

import pytest
import torch

from firstfault.ops import compat


def test_autograd_nodes_are_numbered_as_they_are_made() -> None:
    """A forward operator's node gets the number that was announced, before the operator is dispatched."""
    x = torch.ones(2, requires_grad=True)
    announced = compat.next_sequence_number()
    y = x.exp()
    assert compat.sequence_number(y.grad_fn) == announced
    assert compat.next_sequence_number() == announced + 1


def test_backward_tells_its_node_and_pass() -> None:
    """Inside a backward pass the running node and the pass have names; outside there are none."""
    seen = []
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda grad: seen.append((compat.current_autograd_node(), compat.current_graph_task())))
    y.sum().backward()
    ((node, task),) = seen
    assert node is not None
    assert task >= 0
    assert compat.current_autograd_node() is None
    assert compat.current_graph_task() == -1


def test_versions_count_changes_in_place() -> None:
    """A tensor's version goes up with each change; tensors of inference mode have none."""
    x = torch.ones(2)
    x.add_(1)
    assert compat.version_of(x) == 1
    with torch.inference_mode():
        assert compat.version_of(torch.ones(2)) == -1


def test_schemas_tell_what_is_written() -> None:
    """An operator's schema says which arguments it changes and which results are views."""
    arguments = compat.schema_of(torch.ops.aten.add_.Tensor).arguments
    assert [argument.alias_info is not None and argument.alias_info.is_write for argument in arguments] == [
        True,
        False,
        False,
    ]
    assert compat.schema_of(torch.ops.aten.view.default).returns[0].alias_info is not None
    assert compat.schema_of(torch.ops.aten.add.Tensor).returns[0].alias_info is None


def test_pointwise_operators_are_tagged() -> None:
    """Element by element operators carry torch's own tag."""
    assert compat.is_pointwise(torch.ops.aten.sub.Tensor)
    assert compat.is_pointwise(torch.ops.aten.where.self)
    assert not compat.is_pointwise(torch.ops.aten.cat.default)


def test_the_frames_that_are_recognised_exist() -> None:
    """A module's call and a backward pass run the code that is looked for on the stack."""
    import sys

    seen = []

    class Probe(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            frame = sys._getframe()
            while frame is not None:
                seen.append(frame.f_code)
                frame = frame.f_back  # type: ignore[assignment]
            return x

    x = torch.ones(2, requires_grad=True)
    y = Probe()(x)
    assert compat.module_call_code() in seen
    y.register_hook(lambda grad: seen.append(sys._getframe().f_back.f_code))  # type: ignore[union-attr]
    seen.clear()
    y.sum().backward()
    assert compat.engine_code() in seen


def test_saved_tensors_can_be_asked_for() -> None:
    """A node's saved tensors are attributes, and reading one that was changed in place raises autograd's own error."""
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    names = [name for name in dir(y.grad_fn) if name.startswith("_saved_")]
    assert names == ["_saved_result"]
    node = y.grad_fn
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        getattr(node, names[0])
