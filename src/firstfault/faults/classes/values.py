"""Values outside of what an operator takes: indices, probabilities, non-finite numbers, assertions on a device."""

from firstfault.faults.fault import Fault, Rule

_INDEX_CONDITION = r"Assertion `[^\n]*(?:index|ind\b|idx|indices|\bt >= 0|target|cur_target|label|srcIndex|dstIndex|offset|out of bounds|numRows|n_classes|< ?(?:\w+_)?size)[^\n]*` ?(?:failed|$)"
_VALUE_CONDITION = r"Assertion `[^\n]*(?:input_val|target_val|zero *<=|<= *one|probability|p[0-4] *<=|>= *zero|isnan|isinf|isfinite|probabilities|lambda >= |std)[^\n]*` ?(?:failed|$)"

INDEX_OUT_OF_DOMAIN = Fault(
    name="index_out_of_domain",
    family="data",
    title="an index lies outside of what it points into",
    first_check="Compare the smallest and the largest index with the size of the dimension, table or class list that it points into.",
    avoid="Don't conclude that the GPU is broken or out of memory, and don't clamp the value: find out why it is there.",
    also=("value_out_of_domain", "dataset_error"),
    tell_apart="firstfault locate names the argument, the element, what is allowed, and the sample.",
    rules=(
        Rule(pattern=_INDEX_CONDITION, source="ATen/native/cuda: IndexKernel, ScatterGatherKernel, Loss, NLLLoss2d, Embedding", never_with=r"Assertion `[^\n]*(?:input_val|probability tensor)"),
        Rule(pattern=r"Target -?\d+ is out of bounds", source="ATen/native/LossNLL.cpp"),
        Rule(pattern=r"\bindex out of range in self\b", source="ATen/native/Embedding.cpp, TensorAdvancedIndexing.cpp"),
        Rule(pattern=r"index out of range: Tried to access index -?\d+ out of table with", source="TH/THTensorEvenMoreMath.cpp, torch 1.x"),
        Rule(pattern=r"\bindex -?\d+ (?:is )?out of (?:bounds|range) (?:for|with)\b", source="ATen/native/TensorAdvancedIndexing.cpp, ScatterGatherKernel.cpp", never_with=r"for axis \d+ with size"),
        Rule(pattern=r"tried to access index -?\d+ on a tensor of", source="ATen/native/TensorAdvancedIndexing.cpp, take and put_"),
        Rule(pattern=r"INDICES element is out of DATA bounds", source="caffe2/perfkernels, index_select"),
        Rule(pattern=r"index contains -?\d+ that is out of range for tensor", source="ATen/native/TensorShape.cpp, sparse index_select"),
        Rule(pattern=r"(?:argument #2 'target' is|\btarget) out of range", source="ATen/native/LossMultiMargin.cpp, LossMultiLabelMargin.cpp"),
        Rule(pattern=r"cur_target >= 0 && cur_target < n_classes|Assertion `cur_target", source="THNN/generic/ClassNLLCriterion.c, torch 0.x and 1.x"),
        Rule(pattern=r"Class values must be (?:smaller than num_classes|non-negative)", source="ATen/native/Onehot.cpp"),
        Rule(pattern=r"Expected i < index_size to be true|embedding_bag: Expected idx >= 0|Index -?\d+ of input takes value -?\d+ which is not in the valid range", source="ATen/native/EmbeddingBag.cpp"),
        Rule(pattern=r"offsets\[-1\] can not be greater than input's length|offsets\[0\] has to be 0", source="ATen/native/EmbeddingBag.cpp"),
        Rule(pattern=r"Found an invalid max index|selected index k out of range|sorter index out of range", source="ATen/native/MaxUnpooling, Sorting, Bucketization"),
        Rule(pattern=r"Padding_idx must be within num_embeddings|blank must be in label range", source="torch/nn/functional.py, ATen/native/LossCTC.cpp"),
        Rule(pattern=r"[`']?\(?0 <= (?:col|row)_indices < n(?:cols|rows)|for dim \d+, size is \d+ but found index", source="ATen/native/sparse/ValidateCompressedIndicesCommon.h"),
        Rule(pattern=r"(?:crow|ccol)_indices\[\.\.\., (?:0|-1)\] == |0 <= (?:crow|ccol)_indices\[\.\.\., 1:\]|are sorted and distinct along the last dimension", source="ATen/native/sparse/ValidateCompressedIndicesCommon.h"),
        Rule(pattern=r"index >= 0 && index < (?:static_cast<int64_t>\()?input[TW]", source="ATen/native/FractionalMaxPool2d.cpp, 3d"),
        Rule(pattern=r"pivots? (?:passed to|given to) \w+ must", source="ATen/native/BatchLinearAlgebra.cpp"),
        Rule(pattern=r"select\(\): index -?\d+ out of range for tensor", source="ATen/native/TensorShape.cpp"),
        Rule(pattern=r"kernel, \S+:\d+, index out of bounds", source="torch/_inductor/codegen/cpp.py"),
    ),
)

VALUE_OUT_OF_DOMAIN = Fault(
    name="value_out_of_domain",
    family="data",
    title="a value lies outside of what the operator is defined for",
    first_check="Look at the minimum, maximum and NaN count of the named argument just before the operator.",
    avoid="Don't clamp before you know where the value came from; a missing sigmoid or an earlier NaN is the usual cause.",
    also=("nonfinite", "index_out_of_domain"),
    tell_apart="firstfault locate names the elements; if they are NaN, the first operator that made one is the place to look.",
    rules=(
        Rule(pattern=_VALUE_CONDITION, source="ATen/native/cuda: Loss, DistributionTemplates.h, MultinomialKernel"),
        Rule(pattern=r"all elements of (?:input|target) should be between 0 and 1", source="ATen/native/Loss.cpp"),
        Rule(pattern=r"Expected p_in >= 0 && p_in <= 1|bernoulli_ expects p to be in \[0, 1\]", source="ATen/native/Distributions.cpp"),
        Rule(pattern=r"probability tensor contains either|invalid multinomial distribution", source="ATen/native/Distributions.cpp"),
        Rule(pattern=r"invalid Poisson rate|normal expects (?:all elements of )?std >= 0", source="ATen/native/Distributions.cpp, DistributionTemplates.h"),
        Rule(pattern=r"Expected segment_length >= 0|lengths contains negative value|repeats can not be negative", source="ATen/native/SegmentReduce.cpp, Repeat.cpp"),
        Rule(pattern=r"Expected parameter \w+ .*of distribution .* to satisfy the constraint|The value argument must be within the support", source="torch/distributions/distribution.py"),
        Rule(pattern=r"bincount only supports 1-d non-negative|torch\.histc: range of .* is not finite", source="ATen/native/SummaryOps.cpp, Histogram.cpp"),
        Rule(pattern=r"Expected (?:input|target)_lengths to have value at (?:most|least)|Expected tensor to have size at least .* for argument #2 'targets'", source="ATen/native/LossCTC.cpp"),
        Rule(pattern=r"linalg\.\w+: .*(?:not positive-definite|is singular|failed to converge)|Singular matrix", source="ATen/native/LinearAlgebraUtils.h"),
        Rule(pattern=r"Expected Tensor with single nonzero value, but got zero", source="ATen/native/TensorCompare.cpp, _assert_async"),
    ),
)

DEVICE_ASSERT = Fault(
    name="device_assert",
    family="contract",
    title="a kernel refused its arguments (which operator is not known yet)",
    first_check="Find the first line on standard error that names the assertion; without one, run firstfault locate.",
    avoid="Don't trust the line of the traceback: the device reports late. Don't go on in the same process: its context is dead.",
    also=("index_out_of_domain", "value_out_of_domain"),
    tell_apart="The assertion's condition, or firstfault locate, names the operator and the value.",
    backends=("cuda", "rocm"),
    late=True,
    rules=(
        Rule(pattern=r"device-side assert(?:ion)? triggered|device-side assertion|hipErrorAssert|cudaErrorAssert", source="c10/cuda/CUDAException.cpp"),
        Rule(pattern=r"block: \[\d+, *\d+, *\d+\], thread: \[\d+, *\d+, *\d+\],? Assertion", source="the CUDA driver"),
    ),
)

NONFINITE = Fault(
    name="nonfinite",
    family="numeric",
    title="a value is NaN or infinite",
    first_check="Find the first operator with finite inputs and a non-finite output, and the step at which weights began to grow.",
    avoid="Don't skip the batch or replace NaN by zero: the weights may be damaged already. The batch is rarely the cause.",
    also=("value_out_of_domain",),
    tell_apart="If the batch alone, on fresh weights, is finite, the history of the weights is the cause.",
    rules=(
        Rule(pattern=r"Function '\w+' returned nan values in its \d+th output", source="torch/csrc/autograd/engine.cpp, anomaly mode"),
        Rule(pattern=r"The total norm of order .* for gradients .* is non-finite", source="torch/nn/utils/clip_grad.py"),
        Rule(pattern=r"(?:contains?|has|have|is|are|got|became|becomes|encountered|detected|found)\W+(?:a |an )?(?:\w+ )?(?:nan|inf|infinite|infinity|non-?finite)s?\b", source="users' own checks"),
        Rule(pattern=r"\b(?:loss|grad\w*|norm|output|logits?|activation|value)s?\b[^\n]{0,40}\b(?:nan|inf|not finite|non-?finite|diverged)\b", source="users' own checks"),
        Rule(pattern=r"^(?:\w+\.)*FloatingPointError\b|Minimum loss scale reached|loss diverged|non-?finite (?:loss|grad)", source="users' own checks, fairseq"),
        Rule(pattern=r"cannot convert float (?:NaN|infinity) to integer", source="Python"),
    ),
)

CLASSES = (INDEX_OUT_OF_DOMAIN, VALUE_OUT_OF_DOMAIN, NONFINITE, DEVICE_ASSERT)
