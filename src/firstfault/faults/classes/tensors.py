"""What operators demand of their tensors as a whole: shapes, dtypes, devices, layouts."""

from firstfault.faults.fault import Fault, Rule

SHAPE_MISMATCH = Fault(
    name="shape_mismatch",
    family="contract",
    title="shapes do not fit",
    first_check="Write down the shapes of all arguments and compare them with those of a batch that went through.",
    avoid="Don't add a reshape or a squeeze until the error is gone: find out which dimension changed, and with which sample.",
    also=("collate", "layout_contract"),
    tell_apart="firstfault contrast shows what differs from other batches: an incomplete last batch, an empty or a longer sample.",
    rules=(
        Rule(pattern=r"shapes cannot be multiplied|size mismatch, (?:m1|got|\[)|mat1 dim 1 must match mat2 dim 0|inconsistent tensor size", source="ATen/native/LinearAlgebra.cpp, TH"),
        Rule(pattern=r"The size of tensor a \(\d+\) must match the size of tensor b", source="ATen/ExpandUtils.cpp"),
        Rule(pattern=r"expected input\[[^\]]*\] to have \d+ channels|Given groups=\d+, weight of size|Expected \d+D (?:\(unbatched\)|or|\(batched\)|input)|expected \d+D (?:or|input|tensor)", source="ATen/native/Convolution.cpp, torch/nn/modules"),
        Rule(pattern=r"shape '\[[^\]]*\]' is invalid for input of size", source="ATen/native/TensorShape.cpp"),
        Rule(pattern=r"stack expects each tensor to be equal size|Sizes of tensors must match except in dimension|Tensors must have same number of dimensions|stack expects a non-empty TensorList|torch\.cat\(\): expected a non-empty list", source="ATen/native/TensorShape.cpp", never_with=r"collate|_utils/fetch\.py|DataLoader worker"),
        Rule(pattern=r"Expected hidden\[?\d?\]? size|Expected cell|input\.size\(-1\) must be equal to input_size|Expected hidden size", source="torch/nn/modules/rnn.py"),
        Rule(pattern=r"Expected more than 1 (?:value per channel|spatial element)", source="torch/nn/functional.py, batch_norm"),
        Rule(pattern=r"Expected input batch_size \(\d+\) to match target batch_size|Using a target size .* that is different to the input size .* is|Target size .* must be the same as input size", source="torch/nn/functional.py"),
        Rule(pattern=r"Expected reduction dim .* to have non-zero size|Expected reduction dim to be specified for input\.numel\(\) == 0|Specify the reduction dim", source="ATen/native/ReduceOpsUtils.h"),
        Rule(pattern=r"cannot perform reduction function \w+ on (?:a )?tensor with no elements|\w+\(\): Expected reduction dim", source="ATen/native/ReduceOps.cpp"),
        Rule(pattern=r"Dimension out of range \(expected to be in range|dimension specified as \d+ but tensor has no dimensions", source="c10/core/WrapDimMinimal.cpp"),
        Rule(pattern=r"The expanded size of the tensor \(\d+\) must match the existing size|expand\(.*\): the number of sizes provided", source="ATen/ExpandUtils.cpp"),
        Rule(pattern=r"Kernel size can't be greater than actual input size|Calculated (?:padded input|output)( size)? ?.*(?:too small|per channel)|Padding size should be less than|Output size is too small", source="ATen/native/Convolution.cpp, Pool.h, ReflectionPad.cpp"),
        Rule(pattern=r"The shape of the mask .* does not match the shape of the indexed tensor|shape mismatch: (?:value tensor|indexing tensors|objects)", source="ATen/native/TensorAdvancedIndexing"),
        Rule(pattern=r"output with shape .* doesn't match the broadcast shape|tensors? must have (?:the )?same (?:shape|size|number)|is not broadcastable|must be broadcastable|same shape as", source="ATen/TensorIterator.cpp"),
        Rule(pattern=r"expected scalar argument|only one element tensors can be converted to Python scalars|a Tensor with \d+ elements cannot be converted to Scalar|Boolean value of Tensor with (?:more than one value|no values) is ambiguous", source="torch/csrc/autograd/python_variable_methods.cpp, ATen/native/Scalar.cpp"),
        Rule(pattern=r"grad can be implicitly created only for scalar outputs|Mismatch in shape: grad_output", source="torch/autograd/__init__.py"),
        Rule(pattern=r"Index tensor must have the same number of dimensions|Expected index \[[^\]]*\] to be (?:smaller|no larger) than|index_select\(\): Index is supposed to be a vector|Number of elements of source < number of ones in mask|allocated size does not match required size|segment_reduce\(\): Expected all rows", source="ATen/native/TensorAdvancedIndexing.cpp"),
        Rule(pattern=r"batch1 and batch2 must have same|Expected size for first two dimensions of batch2|Expected tensor to have size \d+ at dimension|(?:matrix|tensor)s? expected, got|mat1 and mat2 must|both arguments to (?:matmul|linear) need to be at least 1D|must be (?:a )?(?:square|batches of square)|split_with_sizes expects|embed_dim must|was expecting embedding dimension", source="ATen/native/LinearAlgebra.cpp", never_with=r"same dtype|scalar type"),
        Rule(pattern=r"Length of all samples has to be greater than 0|Expected `len\(lengths\)`|`lengths` array must be sorted|weight tensor should be defined either for all", source="ATen/native/PackedSequence.cpp, LossNLL.cpp"),
        Rule(pattern=r"The shape of the (?:2D|3D) attn_mask|shape of .* (?:is|should be|but) .*\btorch\.Size|running_mean should contain \d+ elements|Expected (?:input|weight) to be a vector of size equal|normalized_shape=", source="torch/nn/functional.py, ATen/native/Normalization.cpp"),
        Rule(pattern=r"too many values to unpack|not enough values to unpack", source="Python, over tensors", only_with=r"torch|tensor"),
    ),
)

DTYPE_MISMATCH = Fault(
    name="dtype_mismatch",
    family="contract",
    title="dtypes do not fit",
    first_check="Print the dtype of every argument; the odd one usually comes from one file or from NumPy's float64 default.",
    avoid="Don't cast the model to double: make the data one dtype where it is read.",
    also=("kernel_unavailable", "device_mismatch"),
    tell_apart="firstfault contrast shows whether the dtype of a batch leaf changed within the run.",
    rules=(
        Rule(pattern=r"must have the same dtype|expected scalar type \w+ but (?:found|got)|Expected object of scalar type|expected (?:m1 and m2|mat1 and mat2) to have the same dtype", source="ATen/native/LinearAlgebra.cpp, ATen/core/TensorMethods.cpp"),
        Rule(pattern=r"Expected object of type torch\.\w+ but found type torch\.(?!cuda)\w+", source="torch 0.4", never_with=r"torch\.cuda\.\w+Tensor but found type torch\.\w+Tensor|torch\.\w+Tensor but found type torch\.cuda"),
        Rule(pattern=r"Found dtype \w+ but expected \w+|expected target dtype|expected dtype \w+ for `?\w+`? but got|expected tensor for argument .* to have (?:one of the following scalar types|scalar type)", source="ATen/TensorIterator.cpp, CheckedFrom"),
        Rule(pattern=r"tensors used as indices must be long|Expected tensor for argument #1 'indices' to have|gather\(\): Expected dtype int|scatter\(\): Expected (?:dtype|self\.dtype)|one_hot is only applicable to index tensor|index_\w+\(\): (?:Expected|self)", source="ATen/native/TensorAdvancedIndexing.cpp, Onehot.cpp"),
        Rule(pattern=r"result type \w+ can't be cast to|Input type \(\S+\) and (?:weight|bias) type \(\S+\) should be the same", source="ATen/TensorIterator.cpp, Convolution.cpp", never_with=r"Input type \((?:torch\.cuda\.\w+|torch\.\w+)\) and weight type \((?:torch\.cuda\.\w+|torch\.\w+)\) should be the same(?=[\s\S]*cuda)"),
        Rule(pattern=r"(?:only Tensors of floating point|only supports? (?:floating|float)|Input dtype must be either a floating|can only calculate the mean of|Can only calculate the mean|expects? floating point)|mean\(\): could not infer output dtype", source="ATen/native/ReduceOps.cpp"),
        Rule(pattern=r"self and (?:mat2|other|tensor) must have the same dtype|expected both inputs to be on same dtype|Expected query, key, and value to have the same dtype|should have the same dtype|Subtraction, the `-` operator, with a bool tensor", source="ATen/native"),
    ),
)

DEVICE_MISMATCH = Fault(
    name="device_mismatch",
    family="contract",
    title="tensors live on different devices",
    first_check="Find which argument strayed, and where it was made: a buffer, a tensor made inside forward, an index.",
    avoid="Don't sprinkle .to(device): move the one tensor where it is made, or register it as a buffer.",
    also=("dtype_mismatch",),
    tell_apart="firstfault locate shows every argument's device and the line that made the one that strayed.",
    rules=(
        Rule(pattern=r"Expected all tensors to be on the same device|found at least two devices", source="ATen/core/op_registration/adaption.h"),
        Rule(pattern=r"Expected object of (?:device|backend) type \w+ but got|Expected object of backend|arguments are located on different GPUs|tensors? (?:must|should) be (?:on|located on) the same (?:device|GPU)|all tensors must be on|is on \S+,? (?:but expected|different from other tensors)", source="ATen, torch 1.x"),
        Rule(pattern=r"Input type \((?:torch\.cuda\.\w+|torch\.\w+)\) and weight type \((?:torch\.cuda\.\w+|torch\.\w+)\) should be the same", source="ATen/native/Convolution.cpp", only_with=r"(?:torch\.cuda\.|MPSFloat|CUDA)"),
        Rule(pattern=r"torch\.cuda\.\w+Tensor but found type torch\.\w+Tensor|torch\.\w+Tensor but found type torch\.cuda", source="torch 0.4"),
        Rule(pattern=r"indices should be either on cpu or on the same device|Placeholder storage has not been allocated on MPS device|Expected a '?\w+'? device type for generator but found|expected self and mask to be on the same device|Input and (?:hidden|parameter) tensors are not at the same device", source="ATen/native, ATen/mps"),
        Rule(pattern=r"module must have its parameters and buffers on device \S+ \(device_ids\[0\]\) but found one of them on", source="torch/nn/parallel/data_parallel.py"),
        Rule(pattern=r"can't convert (?:cuda:\d+|mps:\d+|xpu:\d+|CUDA) (?:device type )?tensor to numpy|Attempted to set the storage of a tensor on device|Cannot copy out of meta tensor; no data|Tensor on device (?:meta|cpu|cuda\S*) is not on the expected device|Tensor\.item\(\) cannot be called on meta tensors|is on the meta device", source="torch/_tensor.py, ATen/native/TensorConversions.cpp"),
    ),
)

LAYOUT_CONTRACT = Fault(
    name="layout_contract",
    family="contract",
    title="a tensor's memory layout is not what the operator needs",
    first_check="Print stride() and is_contiguous() of the argument, and find the permute, transpose, expand or slice before it.",
    avoid="Don't call contiguous() everywhere: reshape where a copy is fine, and know where the layout changed.",
    also=("shape_mismatch",),
    tell_apart="If a contiguous copy of the same values goes through, it is the layout.",
    rules=(
        Rule(pattern=r"view size is not compatible with input tensor's size and stride|invalid argument 2: view size is not compatible", source="ATen/TensorUtils.cpp"),
        Rule(pattern=r"(?:input|tensor|self|\w+) (?:is not|must be|should be|needs to be|has to be|to be) contiguous|expected contiguous|only supports contiguous|non-?contiguous (?:input|tensor)s? (?:is|are) not", source="ATen/native"),
        Rule(pattern=r"more than one element of the written-to tensor refers to a single memory location|some elements of the input tensor and the written-to tensor refer to a single memory|unsupported operation: .*single memory location", source="ATen/MemoryOverlap.cpp"),
        Rule(pattern=r"at least one stride in the given numpy array is negative|some of the strides of a given numpy array are negative|given numpy array has byte order different", source="torch/csrc/utils/tensor_numpy.cpp"),
        Rule(pattern=r"self\.stride\(-1\) must be 1 to view|self\.storage_offset\(\) must be divisible|misaligned address|required rank \d tensor to use channels_last", source="ATen/native/TensorShape.cpp"),
    ),
)

CLASSES = (DEVICE_MISMATCH, DTYPE_MISMATCH, LAYOUT_CONTRACT, SHAPE_MISMATCH)
