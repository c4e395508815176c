"""What autograd demands of a program."""

from firstfault.faults.fault import Fault, Rule

INPLACE_AUTOGRAD = Fault(
    name="inplace_autograd",
    family="contract",
    title="something that backward needs was changed in place",
    first_check="Find the line that changed the tensor after the forward operator had saved it (firstfault locate names both).",
    avoid="Don't set retain_graph=True and don't detach: make the change out of place.",
    also=("graph_freed",),
    tell_apart="The message names the operator whose result was changed; the changing line runs between it and backward. An optimizer step between two backward calls changes weights in place too.",
    rules=(
        Rule(
            pattern=r"(?:has|have) been modified by an in-?place operation|modified by an inplace operation",
            source="torch/csrc/autograd/saved_variable.cpp",
            examples=(
                "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTensor [256, 10]], which is output 0 of AsStridedBackward0, is at version 2; expected version 1 instead. Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable in question was changed in there or anywhere later. Good luck!",
                "    torch.autograd.backward(self, gradient, retain_graph, create_graph)\nRuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation",
            ),
        ),
        Rule(
            pattern=r"leaf [vV]ariable that requires grad (?:is being|has been) used in an in-?place|leaf [vV]ariable (?:has been|was) moved into the graph interior|leaf variable that requires grad",
            source="torch/csrc/autograd/VariableTypeUtils.h, python_variable.cpp",
            examples=(
                "RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.",
                "RuntimeError: a view of a leaf Variable that requires grad is being used in an in-place operation.",
                "RuntimeError: leaf variable has been moved into the graph interior",
            ),
        ),
        Rule(
            pattern=r"is a view and (?:is being|its base or another view of its base has been) modified in-?place|is a view of a view which was created in no_grad|A view was created in|[Aa] view (?:that )?was (?:created|generated) (?:in|inside)|can't modify views? in-?place|views? .* forbids? .*in-?place|modified in-?place (?:with|inside)",
            source="torch/csrc/autograd/variable.cpp",
            examples=(
                "RuntimeError: Output 0 of UnbindBackward0 is a view and is being modified inplace. This view is the output of a function that returns multiple views. Such functions do not allow the output views to be modified inplace. You should replace the inplace operation by an out-of-place one.",
                "RuntimeError: A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked).",
            ),
        ),
        Rule(
            pattern=r"[Ii]nplace update to inference tensor outside InferenceMode|Cannot set version_counter for inference tensor",
            source="c10/core/TensorImpl.h, InferenceMode.h",
            examples=(
                "RuntimeError: Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal tensor before doing inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details.",
                '  File "ema.py", line 40, in update\n    shadow.mul_(self.decay)\nRuntimeError: Inplace update to inference tensor outside InferenceMode is not allowed.',
            ),
        ),
    ),
)

GRAPH_FREED = Fault(
    name="graph_freed",
    family="contract",
    title="backward was called where there is no graph any more, or none at all",
    first_check="Find what is kept from the step before (a hidden state, a running loss, a cached output without detach()), or what cut the graph: no_grad, detach(), .data, .item(), a frozen model.",
    avoid="Don't add retain_graph=True or requires_grad_() to get past it: memory then grows with every step, or nothing is trained.",
    also=("inplace_autograd", "out_of_memory"),
    tell_apart="If the first batch passes and the second fails, something of the first one's graph is used again.",
    rules=(
        Rule(
            pattern=r"Trying to backward through the graph a second time|after they have already been freed|buffers have already been freed|Saved (?:intermediate )?values of the graph are freed",
            source="torch/csrc/autograd/saved_variable.cpp, variable.h",
            examples=(
                "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after calling backward.",
                "RuntimeError: Trying to backward through the graph a second time, but the buffers have already been freed. Specify retain_graph=True when calling backward the first time.",
            ),
        ),
        Rule(
            pattern=r"element \d+ of (?:tensors|variables) does not require grad and does not have a grad_fn|tensors? does not require grad and does not have a grad_fn|there are no graph nodes that require computing gradients",
            source="torch/csrc/autograd/python_engine.cpp, autograd.cpp",
            examples=(
                "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",
                "RuntimeError: element 0 of variables does not require grad and does not have a grad_fn",
            ),
        ),
        Rule(
            pattern=r"[Oo]ne of the differentiated Tensors (?:does not require grad|appears to not have been used in the graph)|One of the differentiated Variables appears|Inference tensors cannot be saved for backward|none of (?:the )?outputs? ha(?:s|ve) requires_grad=True",
            source="torch/csrc/autograd/engine.cpp; torch/utils/checkpoint.py",
            examples=(
                "RuntimeError: One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is the desired behavior.",
                "RuntimeError: Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal tensor and use it in autograd.",
            ),
        ),
    ),
)

CLASSES = (INPLACE_AUTOGRAD, GRAPH_FREED)
