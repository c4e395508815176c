"""What autograd demands of a program."""

from firstfault.faults.fault import Fault, Rule

INPLACE_AUTOGRAD = Fault(
    name="inplace_autograd",
    family="contract",
    title="something that backward needs was changed in place",
    first_check="Find the line that changed the tensor after the forward operator had saved it (firstfault locate names both).",
    avoid="Don't set retain_graph=True and don't detach: make the change out of place.",
    also=("graph_freed",),
    tell_apart="The message names the operator whose result was changed; the changing line runs between it and backward.",
    rules=(
        Rule(pattern=r"modified by an inplace operation", source="torch/csrc/autograd/saved_variable.cpp"),
        Rule(pattern=r"a leaf Variable that requires grad (?:is being used in an in-place operation|has been used in an in-place)|a view of a leaf Variable that requires grad is being used in an in-place", source="torch/csrc/autograd/VariableTypeUtils.h"),
        Rule(pattern=r"is a view and (?:is being|its base or another view of its base has been) modified inplace|can't modify views? inplace|Output \d+ of \w+ is a view", source="torch/csrc/autograd/variable.cpp"),
        Rule(pattern=r"Inplace update to inference tensor outside InferenceMode", source="ATen/TensorIterator, c10/core/InferenceMode.h"),
    ),
)

GRAPH_FREED = Fault(
    name="graph_freed",
    family="contract",
    title="backward was called where there is no graph any more, or none at all",
    first_check="Find what is kept from the step before: a hidden state, a running loss, a cached output without detach().",
    avoid="Don't add retain_graph=True to get past it: memory then grows with every step.",
    also=("inplace_autograd", "out_of_memory"),
    tell_apart="If the first batch passes and the second fails, something of the first one's graph is used again.",
    rules=(
        Rule(pattern=r"Trying to backward through the graph a second time|Trying to access(?:ing)? .*(?:after they have already been freed|saved (?:tensors|variables))|buffers have already been freed", source="torch/csrc/autograd/saved_variable.cpp"),
        Rule(pattern=r"element \d+ of tensors does not require grad and does not have a grad_fn", source="torch/csrc/autograd/python_engine.cpp"),
        Rule(pattern=r"One of the differentiated Tensors (?:does not require grad|appears to not have been used in the graph)", source="torch/csrc/autograd/engine.cpp"),
        Rule(pattern=r"Inference tensors cannot be saved for backward", source="torch/csrc/autograd/VariableTypeManual.cpp"),
    ),
)

CLASSES = (INPLACE_AUTOGRAD, GRAPH_FREED)
