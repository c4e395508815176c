"""What operators demand of their tensors as a whole: shapes, dtypes, devices, layouts."""

from firstfault.faults.fault import Fault, Rule

DEVICE_MISMATCH = Fault(
    name="device_mismatch",
    family="contract",
    title="tensors live on different devices",
    first_check="Find which argument strayed and where it was made: a buffer that isn't registered, a tensor made inside forward, an index, the batch itself.",
    avoid="Don't sprinkle .to(device): move the one tensor where it is made, or register it as a buffer.",
    also=("dtype_mismatch",),
    tell_apart="firstfault locate shows every argument's device and the line that made the one that strayed.",
    rules=(
        Rule(
            pattern=r"Expected all tensors to be on the same device|found at least two devices|different from other tensors on",
            source="ATen/core/op_registration/adaption.h, since torch 1.5; reworded in 2.7",
            examples=(
                "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (when checking argument for argument mat2 in method wrapper_CUDA_mm)",
                "RuntimeError: Expected all tensors to be on the same device, but got index is on cpu, different from other tensors on cuda:0 (when checking argument in method wrapper_CUDA__index_select)",
            ),
        ),
        Rule(
            pattern=r"Expected object of (?:device type|backend) \w+ but got (?:device type|backend)|[Ee]xpected device \S+ but got device|is on (?:CPU|GPU|cpu|cuda), but expected (?:it|them) to be on|expected (?:it|them) to be on GPU|arguments are located on different GPUs|to have the same device as tensor for argument",
            source="ATen/native, ATen/TensorUtils.cpp, THC; torch 0.4 to 1.7",
            examples=(
                "RuntimeError: Expected object of backend CUDA but got backend CPU for argument #4 'mat1'",
                "RuntimeError: Tensor for 'out' is on CPU, Tensor for argument #1 'self' is on CPU, but expected them to be on GPU (while checking arguments for addmm)",
                "RuntimeError: Expected tensor for argument #1 'input' to have the same device as tensor for argument #2 'weight'; but device 1 does not equal 0 (while checking arguments for cudnn_convolution)",
                "RuntimeError: expected device cuda:0 but got device cpu",
            ),
        ),
        Rule(
            # Two type names whose device parts differ: torch.FloatTensor with torch.cuda.FloatTensor, or MPSFloatType.
            pattern=r"Input type \((?P<d>torch\.(?:\w+\.)?|MPS|XPU|CUDA|CPU|HPU)\w+\) and (?:weight|bias) type \((?!(?P=d)[A-Z])|[Ee]xpected (?:object of )?type torch\.(?P<e>(?:cuda\.)?)[A-Z]\w+ but (?:found|got)(?: type)? torch\.(?!(?P=e)[A-Z])|Expected a '?\w+'? device type for generator but found",
            source="ATen/native/Convolution.cpp; torch 0.4; ATen/core/Generator.h",
            examples=(
                "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same or input should be a MKLDNN tensor and weight is a dense tensor",
                "RuntimeError: Expected object of type torch.cuda.LongTensor but found type torch.LongTensor for argument #3 'index'",
                "RuntimeError: Input type (MPSFloatType) and weight type (torch.FloatTensor) should be the same",
                "RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'",
            ),
        ),
        Rule(
            pattern=r"Placeholder storage has not been allocated on MPS device|_mps: input\(device=.* must be on the same device|(?:[Tt]ensors?|[Ii]nputs?|arguments?|self|weight|mask|indices|index|elements|grad\w*|output\w*|values?)\b[^.]{0,80}? (?:must|should|need to|has to|have to|expected to) (?:all )?(?:be|reside|live|are) (?:either )?(?:on|in|located on) (?:the |a )?(?:same|cpu or on the same) (?:device|GPU)|must be on the (?:same|current) (?:device|\w+ device)|(?:are|is|be) not (?:at|on) the same device|on different devices|indices should be either on",
            source="ATen/mps; ATen/native; torch/nn",
            examples=(
                "RuntimeError: Placeholder storage has not been allocated on MPS device!",
                "RuntimeError: indices should be either on cpu or on the same device as the indexed tensor (cpu)",
                "RuntimeError: Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden tensor at cpu",
                "RuntimeError: slow_conv2d_forward_mps: input(device='cpu') and weight(device=mps:0')  must be on the same device",
            ),
        ),
        Rule(
            pattern=r"module must have its parameters and buffers on device \S+ \(device_ids\[0\]\) but found one of them on|to be on (?:the same )?(?:GPU|cuda|CUDA device) ?\S* but (?:found|got|is)|Tensor on device \S+ is not on the expected device|Attempted to set the storage of a tensor on device|[Uu]nhandled FakeTensor Device Propagation",
            source="torch/nn/parallel/data_parallel.py; torch/_subclasses/fake_tensor.py",
            examples=(
                "RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: cpu",
                "RuntimeError: Tensor on device cpu is not on the expected device meta!",
            ),
        ),
        Rule(
            pattern=r"can't convert (?:\w+:\d+|CUDA|cuda|mps|xpu) ?(?:device type )?tensor to numpy|Cannot copy out of meta tensor|\.item\(\) cannot be called on meta tensors|on a meta tensor|is on the meta device|pin(?:ned)? '?\S*'? only dense CPU tensors can be pinned|only dense CPU tensors can be pinned",
            source="torch/csrc/utils/tensor_numpy.cpp; ATen/native/TensorConversions.cpp, Memory.cpp",
            examples=(
                "TypeError: can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
                "NotImplementedError: Cannot copy out of meta tensor; no data!",
                "RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned",
            ),
        ),
    ),
)

DTYPE_MISMATCH = Fault(
    name="dtype_mismatch",
    family="contract",
    title="dtypes do not fit",
    first_check="Print the dtype of every argument of the operator, and of the batch as the loader gave it: NumPy makes float64, autocast makes half.",
    avoid="Don't cast the model to the data: cast the data where it is read.",
    also=("kernel_unavailable", "device_mismatch"),
    tell_apart="firstfault contrast shows whether the dtype of a batch leaf changed within the run.",
    rules=(
        Rule(
            pattern=r"(?:must|should|to) have (?:the )?same d?type|expected (?:both )?(?:m1 and m2|mat1 and mat2|inputs?|vec1 and vec2|self and \w+)\b.*\bsame d?type|be (?:of|on) (?:the )?same (?:d?type|scalar type)|to be on same dtype|same dtype as|should be the same data type|must be of the same (?:d?type|data type)|dtypes? (?:do|does) not match|[Ii]ncompatible dtypes|have different dtypes",
            source="ATen/native/LinearAlgebra.cpp, Blas.cpp, TensorShape.cpp, transformers/attention.cpp",
            unless=r"on the same device|Input type \(",
            examples=(
                "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and BFloat16",
                "RuntimeError: Expected query, key, and value to have the same dtype, but got query.dtype: float key.dtype: float and value.dtype: c10::Half instead.",
                "RuntimeError: expected m1 and m2 to have the same dtype, but got: float != double",
            ),
        ),
        Rule(
            pattern=r"expected scalar type \w+ but (?:found|got)|[Ee]xpected object of (?:scalar )?type [\w.]+ but (?:found|got)|Expected object of data type|(?:to have|of) (?:one of the following )?scalar types?:? [\w, ]+;? but got|to have the same type as tensor for argument|[Ee]xpected (?:a )?(?:type|dtype|scalar type) torch\.\w+ but got",
            source="ATen/core/TensorMethods.cpp, TensorUtils.cpp; torch 0.4 to 1.4",
            unless=r"same device",
            examples=(
                "RuntimeError: expected scalar type Half but found Float",
                "RuntimeError: Expected object of scalar type Long but got scalar type Float for argument #2 'target' in call to _thnn_nll_loss_forward",
                "RuntimeError: Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got torch.FloatTensor instead (while checking arguments for embedding)",
                "RuntimeError: Expected object of type torch.FloatTensor but found type torch.DoubleTensor for argument #2 'weight'",
            ),
        ),
        Rule(
            pattern=r"Found dtype \w+ but expected \w+|expected target dtype|[Ee]xpected d?type \S+ (?:for \S+ )?but got|result type \w+ can't be cast to|[Ee]xpected floating point (?:type|target|input)|[Ee]xpected (?:a )?(?:Long|long|Float|float|integer|int64) tensor|(?:dtype|scalar type)s? .{0,40}(?:is|are) not (?:supported|allowed) (?:as|for) (?:target|index|indices|mask)",
            source="ATen/TensorIterator.cpp, native/LossNLL.cpp, native/Loss.cpp",
            examples=(
                "    loss.backward()\nRuntimeError: Found dtype Double but expected Float",
                "RuntimeError: expected target dtype to be Long or Byte, but got Int",
                "RuntimeError: result type Float can't be cast to the desired output type Long",
                "RuntimeError: Expected floating point type for target with class probabilities, got Long",
            ),
        ),
        Rule(
            pattern=r"tensors used as indices must be|arrays used as indices must be of integer|one_hot is only applicable to index tensor|\w+\(\): Expected (?:dtype|self\.dtype|a long tensor|an? int\w* tensor)|(?:\w+\(\):? )?[Ii]nd(?:ex|ices)\b[^.]{0,30}(?:should be|must be|to have) (?:of )?(?:d?type )?(?:an? )?(?:Long|long|int64|integer|type int64|dtype int64)|expected (?:dtype|scalar type) int\w+ for index|only supports (?:int32|int64|Long)",
            source="ATen/native/TensorAdvancedIndexing.cpp, IndexingUtils.h, Onehot.cpp",
            examples=(
                "IndexError: tensors used as indices must be long, int, byte or bool tensors",
                "RuntimeError: scatter(): Expected dtype int64 for index",
                "RuntimeError: gather(): Expected dtype int32/int64 for index",
                "RuntimeError: one_hot is only applicable to index tensor of type LongTensor.",
            ),
        ),
        Rule(
            pattern=r"Input type \((?P<d>torch\.(?:\w+\.)?|MPS|XPU|CUDA|CPU|HPU)\w+\) and (?:weight|bias) type \((?P=d)[A-Z]|Input type \([a-z]\S*\) and (?:weight|bias) type \([a-z]\S*\) should be the same",
            source="ATen/native/Convolution.cpp",
            examples=(
                "RuntimeError: Input type (torch.cuda.DoubleTensor) and weight type (torch.cuda.FloatTensor) should be the same",
                "RuntimeError: Input type (double) and bias type (float) should be the same",
                "RuntimeError: Input type (c10::Half) and bias type (float) should be the same",
            ),
        ),
        Rule(
            pattern=r"[Oo]nly Tensors of floating point|(?:only|must|should|expects?|required?|requires|supports?|be) (?:be )?(?:either )?(?:an? )?(?:for )?(?:supports? )?(?:floating[- ]point|float(?:ing)?|integral|complex|bool\w*)\b.{0,40}(?:d?types?|tensors?|inputs?)|[Ii]nput dtype (?:must|should) be|[Cc]an only calculate the (?:mean|std|var)|could not (?:determine|infer) (?:the )?(?:output )?dtype|can only be (?:called|applied|used) (?:on|to|with) (?:floating|tensors of floating)|should be a floating point type|not implemented for (?:integer|integral|bool) ",
            source="ATen/native/ReduceOps.cpp; torch/csrc/autograd",
            examples=(
                "RuntimeError: mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long",
                "RuntimeError: Only Tensors of floating point and complex dtype can require gradients",
                "RuntimeError: std and var only support floating point and complex dtypes",
                "RuntimeError: Can only calculate the mean of floating types. Got Byte instead.",
            ),
        ),
        Rule(
            pattern=r"[Ss]ubtraction, the `-` operator, with (?:a|two) bool tensors?|[Nn]egation, the `-` operator, on a bool tensor|(?:value|dtype) cannot be converted to type \S+ without overflow|can't (?:assign|convert) (?:a )?(?:\S+ to a torch\.\w+Tensor|np\.ndarray of type)|value cannot be converted to type|Boolean (?:value|mask) .* (?:dtype|bool)|dtype torch\.\w+ is not supported for (?:attn_mask|mask)|Expected attn_mask dtype to be|only (?:bool and floating|supports fp16 and bf16)|only support fp16 and bf16 data type|type mismatch|Tensors? type \w+ (?:does|do) not match",
            source="ATen/native/BinaryOps.cpp, c10/util/Exception; torch/csrc/utils/tensor_new.cpp; flash-attn",
            unless=r"(?i)^(?:size|shape)",
            examples=(
                "RuntimeError: Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
                "TypeError: can't convert np.ndarray of type numpy.object_. The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint8, and bool.",
                "RuntimeError: value cannot be converted to type at::Half without overflow: -1e+30",
                "RuntimeError: FlashAttention only support fp16 and bf16 data type",
            ),
        ),
    ),
)

LAYOUT_CONTRACT = Fault(
    name="layout_contract",
    family="contract",
    title="a tensor's memory layout is not what the operator needs",
    first_check="Print stride() and is_contiguous() of the argument, and find the permute, transpose, expand, slice or flip before it.",
    avoid="Don't call contiguous() everywhere: use reshape where a copy is fine, and know where the layout changed.",
    also=("shape_mismatch",),
    tell_apart="If a contiguous copy of the same values goes through, it is the layout (firstfault compare tries it).",
    rules=(
        Rule(
            pattern=r"view size is not compatible with input tensor's size and stride|Use \.reshape\(\.\.\.\) instead|call \.contiguous\(\) before \.view\(\)",
            source="ATen/native/TensorShape.cpp, TH/generic/THTensor.cpp",
            examples=(
                "RuntimeError: view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
                "RuntimeError: invalid argument 2: view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Call .contiguous() before .view(). at /pytorch/aten/src/THC/generic/THCTensor.cpp:209",
            ),
        ),
        Rule(
            pattern=r"(?:is|are) not contiguous|(?:must|should|needs? to|has to|have to|expected to|to) (?:all )?be (?:a )?(?:row-?major )?(?:dense |\w+ and )?(?:non-overlapping and )?contiguous|(?:input|tensor|weight|grad\w*|requires|expects?|expected|only supports?|supports? only)s? (?:an? )?contiguous|non-?contiguous (?:\w+ )?(?:is|are) not|Tensors must be non-overlapping and dense|last dimension (?:must be|to be|to have) contiguous|must have contiguous last dimension|strides? .{0,30}(?:must|should) be 1\b|CHECK_CONTIGUOUS",
            source="ATen/native, ProcessGroupNCCL.cpp; extensions' CHECK_CONTIGUOUS",
            unless=r"weights are not part of single contiguous|passed in a non-contiguous input|at least one dimension spans",
            examples=(
                "RuntimeError: rnn: hx is not contiguous",
                "RuntimeError: Input tensor has to be contiguous",
                "ValueError: Tensors must be contiguous",
                "RuntimeError: Q must have contiguous last dimension",
            ),
        ),
        Rule(
            pattern=r"more than one element of the written-to tensor refers to a single memory location|some elements of the input tensor and the written-to tensor refer to a single memory|unsupported operation: .*(?:single memory location|internal overlap|partial overlap)",
            source="ATen/MemoryOverlap.cpp",
            examples=(
                "RuntimeError: unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.",
                "RuntimeError: unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. Please clone() the tensor before performing the operation.",
            ),
        ),
        Rule(
            pattern=r"stride in the given numpy array is negative|strides of a given numpy array are negative|numpy array (?:has byte order different|strides not a multiple)|tensors with negative strides are not currently supported",
            source="torch/csrc/utils/tensor_numpy.cpp",
            examples=(
                "ValueError: At least one stride in the given numpy array is negative, and tensors with negative strides are not currently supported. (You can probably work around this by making a copy of your array  with array.copy().)",
                "ValueError: given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not supported.",
            ),
        ),
        Rule(
            pattern=r"\.stride\(-?\d+\) must be (?:1|divisible)|storage_offset\(\) must be divisible|required rank \d tensor to use channels_last|size\(-1\) must be divisible by \d+ to view|[Uu]nsupported memory format|[Ss]parse (?:tensors?|layout|gradients?) (?:is|are|do|does) not (?:support|have)\w*|does not support sparse gradients|[Ee]xpected (?:\w+ ){0,3}layout|expected \w+ to be (?:a )?(?:strided|dense|sparse)|unsupported tensor layout|is only (?:implemented|supported) for (?:strided|dense|sparse) ",
            source="ATen/native/TensorConversions.cpp, TensorShape.cpp; torch/optim",
            examples=(
                "RuntimeError: self.size(-1) must be divisible by 4 to view Byte as Float (different element sizes), but got 10",
                "RuntimeError: required rank 4 tensor to use channels_last format",
                "RuntimeError: Adam does not support sparse gradients, please consider SparseAdam instead",
            ),
        ),
    ),
)

_RESHAPING = r"stack expects|Sizes of tensors|must match except"

SHAPE_MISMATCH = Fault(
    name="shape_mismatch",
    family="contract",
    title="shapes do not fit",
    first_check="Write down the shapes of all arguments and compare them with those of a batch that went through.",
    avoid="Don't add a reshape or a squeeze until the error is gone: find out which dimension changed, and with which sample.",
    also=("collate", "layout_contract"),
    tell_apart="firstfault contrast shows what differs from other batches: an incomplete last batch, an empty or a longer sample.",
    rules=(
        Rule(
            pattern=r"shapes cannot be multiplied|size mismatch, (?:m1|got|\[)|mat1 dim 1 must match mat2 dim 0|inconsistent tensor size|size mismatch at |incompatible matrix sizes|a and b must have same reduction dim|[Ii]ncompatible (?:shapes|sizes|dimensions)|invalid argument \d+: sizes do not match",
            source="ATen/native/LinearAlgebra.cpp; TH/generic/THTensorMath.cpp; torch/_meta_registrations.py",
            examples=(
                "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x2048 and 512x10)",
                "RuntimeError: size mismatch, m1: [32 x 4096], m2: [25088 x 4096] at /pytorch/aten/src/TH/generic/THTensorMath.cpp:961",
                "RuntimeError: a and b must have same reduction dim, but got [16, 100] X [128, 10].",
            ),
        ),
        Rule(
            pattern=r"The size of tensor [a\d] \(\w+\) must match the size of tensor|output with shape .* doesn't match the broadcast shape|[Tt]he expanded size of the tensor \(\S+\) must match the existing size|the number of sizes provided \(\d+\) must be greater or equal|operands could not be broadcast|(?:not|cannot be|be|are not|must be) broadcast(?:able|ed)?\b|cannot broadcast|does not broadcast with|[Ss]hape mismatch|Attempting to broadcast a dimension",
            source="ATen/ExpandUtils.cpp, TensorIterator.cpp; torch/_refs; NumPy",
            examples=(
                "RuntimeError: The size of tensor a (197) must match the size of tensor b (577) at non-singleton dimension 1",
                "RuntimeError: output with shape [1, 28, 28] doesn't match the broadcast shape [3, 28, 28]",
                "RuntimeError: The expanded size of the tensor (512) must match the existing size (618) at non-singleton dimension 1.  Target sizes: [2, 512].  Tensor sizes: [1, 618]",
                "RuntimeError: shape mismatch: value tensor of shape [18] cannot be broadcast to indexing result of shape [20]",
                "ValueError: operands could not be broadcast together with shapes (10,4) (12,4)",
            ),
        ),
        Rule(
            pattern=r"[Ee]xpected input\[[^\]]*\] to have \d+ channels|Given groups=\d+, (?:expected )?weight|[Ee]xpected (?:\w+ )?(?:to be )?(?:a )?\d+-?[dD]\b|[Ee]xpected (?:\d+|\w+)-dimensional (?:input|tensor|weight)|[Gg]ot \d+-?[dD] (?:input|tensor)|must (?:have|be) (?:at least |exactly )?(?:\w+|\d+)[- ]?[dD]im\w*|(?:must|should) be (?:a )?(?:unbatched |batched )?\d[dD]\b|expects? (?:a |an )?\d[dD]\b|non-empty (?:\d[dD],? ?(?:or )?)+|weight should have at least three dimensions|input has less dimensions than expected|input must have \d+ dimensions|must be a (?:1-D|vector|matrix)\b|matrices expected|vectors? expected|1D tensors expected|[tT]ensor must be (?:\d|one|two|three)-?[dD]",
            source="ATen/native/Convolution.cpp, ReflectionPad.cpp, Pool.h; torch/nn/modules",
            examples=(
                "RuntimeError: Given groups=1, weight of size [64, 3, 7, 7], expected input[8, 1, 224, 224] to have 3 channels, but got 1 channels instead",
                "RuntimeError: Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [3, 64, 64, 64, 2]",
                "ValueError: expected 4D input (got 2D input)",
                "RuntimeError: Expected 4-dimensional input for 4-dimensional weight [32, 3, 3, 3], but got 3-dimensional input of size [3, 32, 32] instead",
                "RuntimeError: 1D tensors expected, but got 2D and 1D tensors",
            ),
        ),
        Rule(
            pattern=r"shape '\[[^\]]*\]' is invalid for input of size|cannot reshape (?:tensor|array) of|unspecified dimension size -1 can be any value|only one dimension can be inferred|size '\[[^\]]*\]' is invalid for input with \d+ elements|cannot be (?:viewed|reshaped) as|unflatten: Provided sizes|[Ii]nvalid shape dimension|Trying to create tensor with negative dimension|negative dimensions? (?:are|is) not allowed",
            source="ATen/native/TensorShape.cpp, ATen/InferSize.h; ATen/native/EmptyTensor.cpp",
            examples=(
                "RuntimeError: shape '[32, 784]' is invalid for input of size 12544",
                "RuntimeError: cannot reshape tensor of 0 elements into shape [0, -1] because the unspecified dimension size -1 can be any value and is ambiguous",
                "RuntimeError: Trying to create tensor with negative dimension -3: [8, -3]",
            ),
        ),
        Rule(
            pattern=r"stack expects (?:each tensor to be equal size|a non-empty TensorList)|Sizes of tensors must match except in dimension|[Tt]ensors must have (?:the )?same (?:number of dimensions|shape|size)|expected a non-empty list of Tensors|zero-dimensional tensor \(at position \d+\) cannot be concatenated|all (?:the )?input array(?:s|) (?:dimensions|must have)|all input (?:arrays|tensors) must have the same (?:shape|size)|need at least one array to|torch\.cat\(\): expected",
            source="ATen/native/TensorShape.cpp; NumPy",
            examples=(
                "RuntimeError: Sizes of tensors must match except in dimension 1. Expected size 14 but got size 13 for tensor number 1 in the list.",
                "    feats = torch.stack([f.mean(0) for f in groups])\nRuntimeError: stack expects each tensor to be equal size, but got [7, 128] at entry 0 and [9, 128] at entry 1",
                "RuntimeError: torch.cat(): expected a non-empty list of Tensors",
                "RuntimeError: zero-dimensional tensor (at position 0) cannot be concatenated",
            ),
        ),
        Rule(
            pattern=r"Expected hidden(?:\[\d\])? size|Expected cell size|must be equal to input_size|[Ee]xpected hidden|hx (?:and cx )?should (?:also )?be \d|hidden(?:\[\d\])? has inconsistent|has inconsistent (?:input|hidden)_size|doesn't match hx batch size|input batch size \d+ doesn't match hidden",
            source="torch/nn/modules/rnn.py",
            examples=(
                "RuntimeError: Expected hidden[0] size (2, 20, 128), got [2, 64, 128]",
                "RuntimeError: input.size(-1) must be equal to input_size. Expected 300, got 301",
                "RuntimeError: For batched 3-D input, hx and cx should also be 3-D but got (2-D, 2-D) tensors",
            ),
        ),
        Rule(
            pattern=r"Expected more than 1 (?:value per channel|spatial element)|running_(?:mean|var) should contain \d+ elements|weight should contain \d+ elements|Given normalized_shape=|[Ee]xpected number of channels in input to be divisible|Expected weight to be (?:a vector of size equal|of same shape)|to be a vector of size equal to the number of channels",
            source="torch/nn/functional.py; ATen/native/Normalization.cpp, layer_norm.cpp, group_norm.cpp",
            examples=(
                "ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 256, 1, 1])",
                "RuntimeError: running_mean should contain 128 elements not 64",
                "RuntimeError: Given normalized_shape=[768], expected input with shape [*, 768], but got input of size[4, 197, 1024]",
            ),
        ),
        Rule(
            pattern=r"Expected input batch_size \(\d+\) to match target batch_size|that is different to the input size|Target size \(.*\) must be the same as input size|Expected target size|multi-target not supported|only batches of spatial targets supported|[Ii]nput and target (?:batch or spatial )?(?:sizes|shapes) (?:don't|do not|must)|[Dd]imension mismatch|size mismatch \(got input|(?:same number of (?:samples|elements|dimensions)|[Mm]ismatch(?:ed|) (?:in )?(?:shape|size|dimension)s?)|inconsistent numbers of samples|must have the same number of (?:elements|dimensions|samples)|same batch size|does not match (?:the )?(?:input|target|number of)|(?:batch(?: |_)?sizes?|shapes?|sizes?|lengths?|dimensions?) (?:do|does|did) ?n[o']t match",
            source="torch/nn/functional.py; ATen/native/LossNLL.cpp, LossNLL2d.cpp",
            examples=(
                "ValueError: Expected input batch_size (64) to match target batch_size (32).",
                "ValueError: Target size (torch.Size([16])) must be the same as input size (torch.Size([16, 1]))",
                "RuntimeError: 0D or 1D target tensor expected, multi-target not supported",
                "RuntimeError: only batches of spatial targets supported (3D tensors) but got targets of dimension: 4",
                "ValueError: Using a target size (torch.Size([8, 1])) that is different to the input size (torch.Size([8])) is deprecated. Please ensure they have the same size.",
            ),
            unless=r"dtype|Target sizes:|NumPy version|version \S+ does not match",
        ),
        Rule(
            pattern=r"Expected reduction dim .*(?:non-zero size|to be specified)|cannot perform reduction function \w+ on (?:a )?tensor with no elements|Specify the reduction dim|operation does not have an identity|zero-size array to reduction operation|to have non-zero size for non-batch dimensions|(?:arg)?max\(\) arg is an empty sequence|input\.numel\(\) == 0|expects? (?:a )?non-?empty|(?:must|should|can ?not|can't) be (?:non-?)?empty\b.{0,20}tensor|tensor is empty",
            source="ATen/native/ReduceOpsUtils.h, ReduceOps.cpp; NumPy",
            examples=(
                "RuntimeError: max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.",
                "IndexError: argmax(): Expected reduction dim 1 to have non-zero size.",
                "RuntimeError: cannot perform reduction function max on tensor with no elements because the operation does not have an identity",
            ),
        ),
        Rule(
            pattern=r"Dimension out of range \(expected to be in range|[Dd]imension out of range|dimension specified as -?\d+ but tensor has no dimensions|too many indices for (?:tensor|array)|invalid index of a 0-dim tensor|(?:slice|select|index)\(\) cannot be applied to a 0-dim tensor|iteration over a 0-d tensor|len\(\) of a 0-d tensor|tuple of length \d+ .* dimensions|number of dim(?:ension)?s (?:don't match|in the tensor input does not match|mismatch)|start \(-?\d+\) \+ length \(-?\d+\) exceeds dimension size|(?:dims?|permut\w+).{0,40} (?:dimensions?|dims?) (?:do not|don't) match|not enough dimensions|repeat dims can not be smaller|Number of dimensions of repeat dims",
            source="c10/core/WrapDimMinimal.cpp; torch/csrc/autograd/python_variable_indexing.cpp; ATen/native/TensorShape.cpp",
            examples=(
                "IndexError: Dimension out of range (expected to be in range of [-1, 0], but got 1)",
                "IndexError: too many indices for tensor of dimension 2",
                "IndexError: invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number",
                "RuntimeError: permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = 4 is not equal to len(dims) = 3",
            ),
        ),
        Rule(
            pattern=r"Kernel size can't be greater than actual input size|Calculated (?:padded input|output) size.*(?:too small|per channel)|Output size is too small|Padding size should be less than|[Pp]added size of the input|pad should be (?:smaller than|at most) half|non-negative after padding|kernel size should be greater than zero|output size .* is too small|(?:output|input) size[s]? should be (?:greater|larger)|[Ii]nput and output sizes should be greater than 0|input image .* (?:is )?smaller than kernel|divisible by the (?:square|product) of|[Pp]adding length (?:should|must)|would be returned|can't be larger than|Expected size to be|input spatial size|expects? (?:its )?input to have|maximum size for tensor at dimension \d+ is \d+ but size is",
            source="ATen/native/ConvolutionMM, Pool.h, ReflectionPad.cpp, UpSample.h, PixelShuffle, Unfold",
            examples=(
                "RuntimeError: Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size can't be greater than actual input size",
                "RuntimeError: Given input size: (512x1x1). Calculated output size: (512x0x0). Output size is too small",
                "RuntimeError: Padding size should be less than the corresponding input dimension, but got: padding (3, 3) at dimension 3 of input [1, 16, 2, 2]",
                "RuntimeError: maximum size for tensor at dimension 1 is 7 but size is 16",
            ),
        ),
        Rule(
            pattern=r"The shape of the mask .* does not match the shape of the indexed tensor|shape mismatch: (?:value tensor|indexing tensors|objects)|[Ii]ndex tensor must have the same number of dimensions|Expected index \[[^\]]*\] to be (?:smaller|no larger) than|[Ii]ndex is supposed to be (?:a vector|one|1)|[Ii]ndex should have dimension 1|Number of elements of source < number of ones in mask|allocated size does not match required size|Expected all rows of lengths|Source/destination tensor .*(?:size|dim|slice)|Number of indices \(\d+\) should be equal|boolean index did not match|indexing result of shape|mask_?.{0,20} to be .*same shape|totalElements <= srcSize",
            source="ATen/native/TensorAdvancedIndexing.cpp; NumPy",
            examples=(
                "IndexError: The shape of the mask [16] at index 0 does not match the shape of the indexed tensor [15, 4] at index 0",
                "RuntimeError: Index tensor must have the same number of dimensions as input tensor",
                "RuntimeError: Expected index [64, 30] to be smaller than self [64, 20] apart from dimension 1 and to be smaller size than src [64, 30]",
            ),
        ),
        Rule(
            of="assertion",
            pattern=r"totalElements <= srcSize|result_size == cumsum|scale_size\b|\(M \* K\)",
            source="ATen/native/cuda: IndexKernel.cu (masked_scatter_), Repeat.cu; mslk",
            examples=(
                "/pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:430: masked_scatter_size_check: block: [0,0,0], thread: [0,0,0] Assertion `totalElements <= srcSize` failed.",
                "../aten/src/ATen/native/cuda/Repeat.cu:20: compute_cuda_kernel: block: [0,0,0], thread: [0,0,0] Assertion `result_size == cumsum_ptr[size - 1]` failed.",
            ),
        ),
        Rule(
            pattern=r"[Ee]xpected (?:scalar argument|(?:a )?scalar)|[Oo]nly one element tensors can be converted|only (?:length|size)-1 arrays can be converted|a Tensor with \d+ elements cannot be converted to Scalar|[Bb]ool(?:ean)? value of Tensor with (?:more than one value|no values) is ambiguous|truth value of an array with more than one element is ambiguous|item\(\) .*(?:one|1) element|unsupported operand .* 0-dim|can only convert an array of size 1",
            source="ATen/native/Scalar.cpp; torch/csrc/autograd/python_variable_methods.cpp; NumPy",
            examples=(
                "RuntimeError: a Tensor with 32 elements cannot be converted to Scalar",
                "ValueError: only one element tensors can be converted to Python scalars",
                "RuntimeError: Boolean value of Tensor with more than one value is ambiguous",
            ),
        ),
        Rule(
            pattern=r"grad can be implicitly created only for scalar outputs|[Mm]ismatch in shape: grad_output|returned an invalid gradient at index \d+ - got .* but expected shape|assigned grad has data of a different size|invalid gradient at index",
            source="torch/autograd/__init__.py; torch/csrc/autograd/engine.cpp",
            unless=r"expected (?:type|device)",
            examples=(
                "RuntimeError: grad can be implicitly created only for scalar outputs",
                "RuntimeError: Function AddmmBackward returned an invalid gradient at index 1 - got [50, 500] but expected shape compatible with [50, 1024]",
            ),
        ),
        Rule(
            pattern=r"batch1 and batch2 must have|Expected size for first two dimensions of batch2|batch2 tensor to be: |Expected tensor to have size \d+ at dimension|both arguments to (?:matmul|linear|\w+) need to be at least 1D|must be (?:a )?(?:square|batches of square)|split_with_sizes expects|split_sizes (?:to )?sum|was expecting embedding dimension|mat1 and mat2 must|(?:einsum|einops)\S*:? .*(?:subscript|dimension|operand|shape|pattern)|[Ss]hape mismatch, can't divide axis|Wrong shape: expected|Input is .* but expected|embed_dim must be divisible|must be divisible by (?:num_heads|n_heads|groups|num_groups)|divisible by groups|[Nn]umber of (?:input )?channels",
            source="ATen/native/LinearAlgebra.cpp, TensorShape.cpp; torch/nn/functional.py; einops",
            unless=r"same d?type|scalar type|argument #2 'targets'",
            examples=(
                "RuntimeError: Expected size for first two dimensions of batch2 tensor to be: [128, 64] but got: [128, 32].",
                "RuntimeError: split_with_sizes expects split_sizes to sum exactly to 100 (input tensor's size at dimension 1), but got split_sizes=[64, 32]",
                "AssertionError: was expecting embedding dimension of 512, but got 256",
                "RuntimeError: einsum(): subscript j has size 64 for operand 1 which does not broadcast with previously seen size 32",
                "einops.EinopsError:  Error while processing rearrange-reduction pattern \"b c (h p1) (w p2) -> b (h w) (p1 p2 c)\".\n Input tensor shape: torch.Size([1, 3, 225, 225]). Additional info: {'p1': 16, 'p2': 16}.\n Shape mismatch, can't divide axis of length 225 in chunks of 16",
            ),
        ),
        Rule(
            pattern=r"Expected `?len\(lengths\)`?|`?lengths`? array (?:must|has to) be sorted|weight tensor should be defined either for all|[Tt]he shape of the (?:2D|3D)? ?attn_mask|attn_mask.{0,60}(?:shape|size)|key_padding_mask.{0,60}(?:shape|size|dim)|(?:feature|batch) number of src and tgt must be equal|Expected q, k, v|query should be (?:un)?batched|must have (?:the )?same (?:shape|size|batch|length|number of)|(?:to be|of|be|have) (?:of )?(?:the )?same (?:shape|size|length)|same shape as|(?:size|shape)s? of \w+ (?:and|must|should|doesn't|does not) |should be of size|should be of shape|should have (?:the )?(?:shape|size)|must have (?:shape|size)|(?:[Ee]xpected|expects?|but got|got)(?: \w+){0,4} (?:shape|sizes?|torch\.Size)\b",
            source="torch/nn/functional.py, modules/transformer.py; ATen/native/PackedSequence.cpp; transformers",
            unless=r"same d?type|in all ranks|state_?dict|checkpoint|across (?:all )?ranks|image file|same device|out of memory",
            weak=True,
            examples=(
                "RuntimeError: The shape of the 2D attn_mask is torch.Size([77, 77]), but should be (4, 4).",
                "ValueError: Attention mask should be of size (1, 1, 7, 14), but is torch.Size([1, 1, 7, 7])",
                "RuntimeError: `lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability.",
                "RuntimeError: the batch number of src and tgt must be equal",
            ),
        ),
        Rule(
            pattern=r"(?:too many|not enough) values to unpack",
            types=r"ValueError",
            at=r"\.shape\b|\.size\(",
            source="Python, over a tensor's shape",
            examples=(
                '  File "model.py", line 52, in forward\n    b, c, h, w = x.shape\nValueError: not enough values to unpack (expected 4, got 3)',
                'Traceback (most recent call last):\n  File "attend.py", line 18, in forward\n    batch, length, width = queries.size()\nValueError: too many values to unpack (expected 3)',
            ),
        ),
    ),
)

CLASSES = (DEVICE_MISMATCH, DTYPE_MISMATCH, LAYOUT_CONTRACT, SHAPE_MISMATCH)
