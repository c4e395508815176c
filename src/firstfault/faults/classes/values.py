"""Values outside of what an operator takes: indices, probabilities, non-finite numbers, assertions on a device.

CUDA kernels and CPU kernels check the same conditions and word them differently; ROCm's and XPU's kernels are built from
the CUDA sources.
"""

from firstfault.faults.fault import Advice, Fault, Rule

INDEX_OUT_OF_DOMAIN = Fault(
    name="index_out_of_domain",
    family="data",
    title="an index lies outside of what it points into",
    first_check="Compare the smallest and the largest index with the size of the dimension, table or class list that it points into.",
    avoid="Don't conclude that the GPU is broken or out of memory, and don't clamp the value: find out why it is there.",
    also=("value_out_of_domain", "dataset_error"),
    tell_apart="firstfault locate names the argument, the element, what is allowed, and the sample.",
    rules=(
        Rule(
            of="assertion",
            pattern=r"index out of (?:bounds|range)|indices .* are out of bounds|target index is out of bounds|Class values must be|Invalid input index",
            source="ATen/native/cuda: IndexKernel.cu, ScatterGatherKernel.cu, EmbeddingBag.cu, Indexing.cu; torch/_inductor/codegen/triton.py",
            examples=(
                '/pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:92: operator(): block: [4,0,0], thread: [96,0,0] Assertion `index >= -sizes[i] && index < sizes[i] && "index out of bounds"` failed.\nRuntimeError: CUDA error: device-side assert triggered',
                "/tmp/torchinductor_root/pm/cpmx.py:28: unknown: block: [0,0,0], thread: [31,0,0] Assertion `index out of bounds: 0 <= tmp3 < 30522` failed.",
            ),
        ),
        Rule(
            of="assertion",
            pattern=r"\bt (?:>= 0|< n_classes)|cur_target|n_classes|\b\w*[iI]nd(?:ex|ices)?(?:_?\w*)? *(?:>=|<=?) |\bidx\w* *(?:>=|<=?) |maxind|srcSelectDimSize|AddDimSize|numRows|\binput[HTW] < |\btarget_k\b",
            source="ATen/native/cuda: Loss.cu, NLLLoss2d.cu, Embedding.cu, MaxUnpooling.cu; THCUNN, torch 0.4 to 1.4",
            examples=(
                "../aten/src/ATen/native/cuda/NLLLoss2d.cu:104: nll_loss2d_forward_kernel: block: [9,0,0], thread: [640,0,0] Assertion `t >= 0 && t < n_classes` failed.",
                "/opt/conda/conda-bld/pytorch_1524586445097/work/aten/src/THC/THCTensorIndex.cu:360: void indexSelectLargeIndex(TensorInfo<T, IndexType>, TensorInfo<T, IndexType>, TensorInfo<long, IndexType>, int, int, IndexType, IndexType, long) [with T = float, IndexType = unsigned int, DstDim = 2, SrcDim = 2, IdxDim = -2, IndexIsMajor = true]: block: [81,0,0], thread: [0,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
            ),
        ),
        Rule(
            of="assertion",
            pattern=r"\bend >= begin\b|\boffset\w* <= |group_end_offset|delta *>= *0|ValidateCompressedIndices\S* .*cond && message|sum of splits is larger",
            source="ATen/native/cuda/EmbeddingBag.cu, GroupMMCommon.cuh; ATen/native/sparse/ValidateCompressedIndicesCommon.h",
            examples=(
                "/pytorch/aten/src/ATen/native/cuda/EmbeddingBag.cu:137: EmbeddingBag_updateOutputKernel_sum_mean: block: [0,0,0], thread: [4,0,0] Assertion `end >= begin` failed.",
                "/pytorch/aten/src/ATen/native/sparse/ValidateCompressedIndicesCommon.h:71: _assert: block: [0,0,0], thread: [2,0,0] Assertion `cond && message` failed.",
            ),
        ),
        Rule(
            pattern=r"Target -?\d+ is out of (?:bounds|range)|Target class index out of range|Assertion [`']cur_target >= 0 && cur_target < n_classes' failed|invalid target class",
            source="ATen/native/LossNLL.cpp, LossNLL2d.cpp; THNN/generic/ClassNLLCriterion.c, torch 0.x to 1.4",
            examples=(
                "IndexError: Target 150 is out of bounds.",
                "RuntimeError: Assertion `cur_target >= 0 && cur_target < n_classes' failed.  at /pytorch/aten/src/THNN/generic/ClassNLLCriterion.c:97",
            ),
        ),
        Rule(
            pattern=r"\bindex out of range in self\b|index out of range: Tried to access index -?\d+ out of table with|index out of range at .*THTensor|invalid argument \d+: out of range(?: at|\.)",
            source="ATen/native/cpu/IndexKernel, TensorAdvancedIndexing.cpp (index_select); TH/generic/THTensorEvenMoreMath.cpp, torch 0.4 to 1.4",
            examples=(
                '  File "/venv/lib/python3.10/site-packages/torch/nn/functional.py", line 2233, in embedding\n    return torch.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)\nIndexError: index out of range in self',
                "RuntimeError: index out of range: Tried to access index 21129 out of table with 21127 rows. at /pytorch/aten/src/TH/generic/THTensorEvenMoreMath.cpp:418",
            ),
        ),
        Rule(
            pattern=r"\bindex -?\d+ is out of bounds for (?:dimension|axis) -?\d+ with size \d+|\bindex -?\d+ is out of bounds for size \d+|index is out of bounds for dimension with size 0|\bindex -?\d+ out of range for tensor of size|\bindex -?\d+ is out of bounds, must be in range",
            source="ATen/native/TensorAdvancedIndexing.cpp, cpu/ScatterGatherKernel.cpp, TensorShape.cpp (select); NumPy words axes so",
            examples=(
                "RuntimeError: index 512 is out of bounds for dimension 1 with size 512",
                'Traceback (most recent call last):\n  File "metrics.py", line 31, in update\n    self.matrix[target, predicted] += 1\nIndexError: index 19 is out of bounds for axis 0 with size 19',
            ),
        ),
        Rule(
            pattern=r"tried to access index -?\d+ on a tensor of|INDICES element is out of DATA bounds|index contains -?\d+ that is out of range for tensor",
            source="ATen/native/TensorAdvancedIndexing.cpp (take, put_, index_select); sparse/SparseTensor.cpp",
            examples=(
                "IndexError: out of range: tried to access index 4096 on a tensor of 4096 elements.",
                "RuntimeError: INDICES element is out of DATA bounds, id=17 axis_dim=16",
            ),
        ),
        Rule(
            pattern=r"\btarget out of range|argument #2 'target' is out of range|Class values must be (?:smaller than num_classes|non-negative)",
            source="ATen/native/LossMultiMargin.cpp, LossMultiLabelMargin.cpp, Onehot.cpp",
            examples=(
                "RuntimeError: Class values must be smaller than num_classes.",
                '  File "train.py", line 88, in step\n    y = F.one_hot(labels - 1, 10)\nRuntimeError: Class values must be non-negative.',
            ),
        ),
        Rule(
            pattern=r"Expected i < index_size to be true|embedding_bag: Expected idx >= 0 && idx < num_embeddings|Index -?\d+ of input takes value -?\d+ which is not in the valid range|offsets\[-1\] can not be greater than input's length|offsets\[0\] has to be 0",
            source="ATen/native/EmbeddingBag.cpp; fbgemm's error in caffe2/perfkernels/embedding_lookup_idx.h",
            examples=(
                "RuntimeError: embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be 95811",
                "ValueError: offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got 12",
            ),
        ),
        Rule(
            pattern=r"[Ff]ound an invalid max index|selected index k out of range|selected number k out of range|sorter index out of range|Padding_idx must be within num_embeddings|padding_idx must be within the number of embeddings|blank must be in label range",
            source="ATen/native/MaxUnpooling.cpp, Sorting.cpp, Bucketization.cpp, LossCTC.cpp; torch/nn/functional.py",
            examples=(
                "    logits = torch.topk(scores, 50)[0]\nRuntimeError: selected index k out of range",
                "AssertionError: Padding_idx must be within num_embeddings",
            ),
        ),
        Rule(
            pattern=r"\b(?:col|row)_indices < n(?:cols|rows)\b|\b(?:crow|ccol)_indices\[\.\.\.|for dim \d+, size is \d+ but found index|found negative index -?\d+ for dim",
            source="ATen/native/sparse/ValidateCompressedIndicesCommon.h, SparseTensor.cpp",
            examples=(
                "RuntimeError: `0 <= col_indices < ncols` is not satisfied.",
                "RuntimeError: size is inconsistent with indices: for dim 1, size is 2708 but found index 2711",
            ),
        ),
        Rule(
            pattern=r"index >= 0 && index < (?:static_cast<int64_t>\()?input[TW]|[Pp]ivots? (?:passed|given) to \w+ must",
            source="ATen/native/FractionalMaxPool2d.cpp, FractionalMaxPool3d.cpp, BatchLinearAlgebra.cpp",
            examples=(
                'RuntimeError: index >= 0 && index < inputT * inputH * inputW INTERNAL ASSERT FAILED at "../aten/src/ATen/native/FractionalMaxPool3d.cpp":268, please report a bug to PyTorch.',
                "RuntimeError: Pivots given to lu_solve must all be greater or equal to 1. Did you properly pass the result of lu_factor?",
            ),
        ),
        Rule(
            pattern=r"kernel, \S+:\d+, index out of bounds|\bindex out of bounds: -?\w+ <= \w+ < ",
            source="torch/_inductor/codegen/cpp.py",
            examples=(
                "RuntimeError: kernel, /tmp/torchinductor_me/uk/cukg.cpp:19, index out of bounds: 0 <= tmp7 < 100L",
                "RuntimeError: kernel, /var/folders/T/torchinductor_a/3q/c3q5.main.cpp:14, index out of bounds: 0 <= tmp4 < 12",
            ),
        ),
        Rule(
            of="type",
            pattern=r"(?:^|\.)ContractError$",
            source="firstfault/checks.py",
            examples=(
                "firstfault.errors.ContractError: class_targets: target[3] is 12; allowed is [0, 10) or -100",
                "ContractError: label_map: 'cyclist' maps to 8; allowed is [0, 8)",
            ),
        ),
    ),
)

VALUE_OUT_OF_DOMAIN = Fault(
    name="value_out_of_domain",
    family="data",
    title="a value lies outside of what the operator is defined for",
    first_check="Look at the minimum, the maximum and the count of NaN of the named argument just before the operator.",
    avoid="Don't clamp before you know where the value came from; a missing sigmoid or an earlier NaN is the usual cause.",
    also=("nonfinite", "index_out_of_domain"),
    tell_apart="firstfault locate names the elements; if they are NaN, the first operator that made one is the place to look.",
    rules=(
        Rule(
            of="assertion",
            pattern=r"input_val|target_val|\b(?:input|x) >= 0\. && |[pP]robabilit|\bp[0-4]? *<= *1|(?:>=|<=) *one\b|multinomial distribution|cumdist|\bval < zero|sum > accZero|isinf\(val\)|isnan\(val\)",
            source="ATen/native/cuda: Loss.cu, DistributionTemplates.h, MultinomialKernel.cu; THCUNN/BCECriterion.cu",
            examples=(
                "/pytorch/aten/src/ATen/native/cuda/Loss.cu:94: operator(): block: [0,0,0], thread: [21,0,0] Assertion `input_val >= zero && input_val <= one` failed.\nRuntimeError: CUDA error: device-side assert triggered",
                "/pytorch/aten/src/THCUNN/BCECriterion.cu:42: Acctype bce_functor<Dtype, Acctype>::operator()(Tuple) [with Tuple = thrust::tuple<float, float>, Dtype = float, Acctype = float]: block: [0,0,0], thread: [3,0,0] Assertion `input >= 0. && input <= 1.` failed.",
            ),
        ),
        Rule(
            of="assertion",
            pattern=r"lambda >= 0|\bstd >= 0|lengths_data\[|\brepeat >= 0|split_val >= 0|% (?:align|scale_factor_block_size) == 0",
            source="ATen/native/cuda: Distributions.cu, SegmentReduce.cu, Repeat.cu, GroupMMCommon.cuh",
            examples=(
                '../aten/src/ATen/native/cuda/Distributions.cu:61: operator(): block: [0,0,0], thread: [0,0,0] Assertion `lambda >= 0 && "invalid Poisson rate, expected rate to be non-negative"` failed.',
                "/pytorch/aten/src/ATen/native/cuda/TensorCompare.cu:110: _assert_async_cuda_kernel: block: [0,0,0], thread: [0,0,0] Assertion `normal expects all elements of std >= 0.0` failed.",
            ),
        ),
        Rule(
            pattern=r"all elements of (?:input|target) should be between 0 and 1|Expected (?:input|p_in|p|target|x|val\w*) ?>= ?0 &&|bernoulli_? expects p to be in \[0, 1\]|Assertion [`']x >= 0\. && x <= 1\.' failed",
            source="ATen/native/Loss.cpp, Distributions.cpp; THNN/generic/BCECriterion.c, torch 0.x to 1.1",
            examples=(
                "RuntimeError: all elements of input should be between 0 and 1",
                "RuntimeError: Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)",
                "RuntimeError: Assertion `x >= 0. && x <= 1.' failed. input value should be between 0~1, but got -0.210341 at /pytorch/aten/src/THNN/generic/BCECriterion.c:62",
            ),
        ),
        Rule(
            pattern=r"probability tensor contains either|invalid multinomial distribution|invalid Poisson rate|normal expects (?:all elements of )?std >= 0|cannot sample n_sample > prob_dist\.size|number of categories cannot exceed",
            source="ATen/native/Distributions.cpp, cpu/MultinomialKernel.cpp, DistributionTemplates.h",
            examples=(
                "    next_tokens = torch.multinomial(probs, num_samples=1).squeeze(1)\nRuntimeError: probability tensor contains either `inf`, `nan` or element < 0",
                "RuntimeError: invalid multinomial distribution (sum of probabilities <= 0)",
            ),
        ),
        Rule(
            pattern=r"[Ee]xpected (?:parameter|value) .*of distribution .* to satisfy the constraint|The parameter \w+ has invalid values|Expected value argument .* to be within the support|The value argument must be within the support",
            source="torch/distributions/distribution.py",
            examples=(
                "ValueError: Expected parameter probs (Tensor of shape (8, 4)) of distribution Categorical(probs: torch.Size([8, 4])) to satisfy the constraint Simplex(), but found invalid values:\ntensor([[nan, nan, nan, nan]])",
                "ValueError: The parameter scale has invalid values",
            ),
        ),
        Rule(
            pattern=r"Expected segment_length >= 0|lengths contains negative value|repeats can(?:not| not) be negative|bincount only supports 1-d non-negative|[Dd]ropout probability (?:must|has to) be between 0 and 1|normal_? expects|random_ expects 'from' to be less than 'to'|(?:exponential|geometric|cauchy|log_normal|uniform)_ expects",
            source="ATen/native/SegmentReduce.cpp, Repeat.cpp, SummaryOps.cpp, Dropout.cpp, DistributionTemplates.h",
            examples=(
                "RuntimeError: repeats can not be negative",
                "ValueError: dropout probability has to be between 0 and 1, but got 1.5",
            ),
        ),
        Rule(
            pattern=r"range of \[.*\] is not finite|max must be larger than min|upper bound and (?:larger|lower) bound inconsistent|unsupported range: ",
            source="ATen/native/cpu/HistogramKernel.cpp, SummaryOps.cpp, RangeFactories.cpp",
            examples=(
                "RuntimeError: torch.histc: range of [nan, nan] is not finite",
                "RuntimeError: upper bound and larger bound inconsistent with step sign",
            ),
        ),
        Rule(
            pattern=r"Expected (?:input|target)_lengths to have value at (?:most|least)|Expected tensor to have size at least \d+ at dimension \d+, but got size \d+ for argument #2 'targets'|(?:Length of all samples has to be greater than 0|input_length must be of size batch_size)",
            source="ATen/native/LossCTC.cpp, PackedSequence.cpp",
            examples=(
                "RuntimeError: Expected input_lengths to have value at most 249, but got value 257 (while checking arguments for ctc_loss_gpu)",
                "RuntimeError: Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0",
            ),
        ),
        Rule(
            pattern=r"(?:linalg\.?\w*|cholesky\w*|inverse\w*|symeig\w*|svd\w*|eigh?\w*|solve\w*|lu\w*|lstsq\w*|triangular_solve\w*).{0,60}(?:not positive[- ]definite|is singular|singular [UA]\b|\(?U\(\d+,\d+\) is zero|failed to converge|could not be completed|is zero, the inversion|factorization has zero)",
            source="ATen/native/BatchLinearAlgebra.cpp, LinearAlgebraUtils.h",
            unless=r"non-finite values",
            examples=(
                "torch._C._LinAlgError: linalg.cholesky: (Batch element 3): The factorization could not be completed because the input is not positive-definite (the leading minor of order 5 is not positive-definite).",
                "RuntimeError: inverse_cpu: U(4,4) is zero, singular U.",
                "torch._C._LinAlgError: linalg.inv: The diagonal element 1 is zero, the inversion could not be completed because the input matrix is singular.",
            ),
        ),
        Rule(
            of="type",
            pattern=r"LinAlgError$",
            source="torch/csrc/Exceptions.cpp; numpy/linalg/linalg.py",
            examples=(
                "numpy.linalg.LinAlgError: Singular matrix",
                "numpy.linalg.LinAlgError: SVD did not converge",
            ),
            unless=r"non-finite values|must be square",
        ),
        Rule(
            pattern=r"Expected Tensor with single nonzero value, but got zero|num_samples should be a positive integer value, but got num_samples=0|(?:math domain error|float division by zero in loss)",
            source="ATen/native/TensorCompare.cpp (_assert_async); torch/utils/data/sampler.py",
            examples=(
                "RuntimeError: Expected Tensor with single nonzero value, but got zero",
                '  File "/venv/lib/python3.9/site-packages/torch/utils/data/sampler.py", line 107, in __init__\n    raise ValueError("num_samples should be a positive integer "\nValueError: num_samples should be a positive integer value, but got num_samples=0',
            ),
        ),
    ),
)

NONFINITE = Fault(
    name="nonfinite",
    family="numeric",
    title="a value is NaN or infinite",
    first_check="Find the first operator with finite inputs and a non-finite output, and the step at which weights or gradients began to grow.",
    avoid="Don't skip the batch or replace NaN by zero: the weights may be damaged already. The batch is rarely the cause.",
    also=("value_out_of_domain",),
    tell_apart="If the batch alone, on fresh weights, is finite, the history of the weights is the cause (firstfault replay tells).",
    rules=(
        Rule(
            of="assertion",
            pattern=r"NanCheck|HasNan|!isnan\(|NaN or Inf found|isfinite",
            source="torch/csrc/distributed/c10d/NanCheck.cu (TORCH_NCCL_NAN_CHECK); torch/_inductor (nan_asserts)",
            examples=(
                "/pytorch/torch/csrc/distributed/c10d/NanCheck.cu:188: checkForNaN: block: [2,0,0], thread: [77,0,0] Assertion `!isnan(data[offset])` failed.",
                "/tmp/torchinductor_u/ca/ccax.py:22: unknown: block: [0,0,0], thread: [5,0,0] Assertion `NaN or Inf found` failed.",
            ),
        ),
        Rule(
            pattern=r"Function '\w+' returned nan values in its \d+th output",
            source="torch/csrc/autograd/engine.cpp, anomaly mode",
            examples=(
                "    Variable._execution_engine.run_backward(\nRuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.",
                "RuntimeError: Function 'LogSoftmaxBackward' returned nan values in its 0th output.",
            ),
        ),
        Rule(
            pattern=r"[Tt]he total norm (?:of order \S+ )?(?:for|of) gradients .*is non-finite|contained non-finite values|(?:array|[Ii]nput\w*) (?:must not|contains?|contain) (?:infs or NaNs|NaN)|cannot convert float (?:NaN|infinity) to integer",
            source="torch/nn/utils/clip_grad.py; ATen/native/BatchLinearAlgebra.cpp; NumPy, SciPy, scikit-learn",
            examples=(
                "RuntimeError: The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`",
                "torch._C._LinAlgError: linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.",
                "ValueError: cannot convert float NaN to integer",
            ),
        ),
        Rule(
            of="type",
            pattern=r"(?:^|\.)FloatingPointError$",
            source="fairseq and others that stop a diverging run",
            examples=(
                "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding. Try lowering the learning rate, using gradient clipping or increasing the batch size.",
                "FloatingPointError: gradients are Nan/Inf",
            ),
        ),
        Rule(
            # The word stands by itself: 'inf' is also an abbreviation, 'nan' a name's part.
            pattern=r"(?i)\b(?:loss\w*|grad\w*|norm|outputs?|logits?|activations?|values?|weights?|predict\w*|tensors?|inputs?|scores?|parameters?|model|cost|elbo|kl|reward|stat\w*|features?|losses|metric\w*|energy)\b[^\n]{0,60}?(?:\b(?:nan|nans|inf|infs|infinity|infinite|diverged|exploded)\b|\bnot (?:a )?finite\b|non-?finite)",
            source="users' own guards",
            types=r"(?:\w+\.)*(?:Value|Runtime|Assertion|Arithmetic|Overflow|Type|Training|System|Base)?(?:Error|Exception|Exit)|.*(?:[Nn]a[Nn]|Finite|Diverge|Overflow)\w*",
            unless=r"replace|ignore_index|non-?finite values and|\bnan_to_num\b",
            examples=(
                "ValueError: The loss returned in `training_step` is nan.",
                "Exception: Loss became infinite or NaN at iteration=2219! loss_dict = {'loss_cls': nan}",
                "AssertionError: gradient norm is not finite at step 1871",
            ),
        ),
        Rule(
            pattern=r"(?i)(?:^|[^\w.])(?:nan|inf|infinite|non-?finite)s?\b[^\n]{0,40}\b(?:loss|grad\w*|norm|values?|outputs?|logits|activations?|weights?|parameters?|tensors?|detected|encountered|found|in)\b",
            source="users' own guards",
            types=r"(?:\w+\.)*(?:Value|Runtime|Assertion|Arithmetic|Overflow|Type|Training|System|Base)?(?:Error|Exception|Exit)|.*(?:[Nn]a[Nn]|Finite|Diverge|Overflow)\w*",
            unless=r"replace|ignore_index|found at least|\bnan_to_num\b",
            examples=(
                "RuntimeError: NaN loss encountered in epoch 3, batch 107",
                "ValueError: Found NaN in parameters of layer decoder.2",
            ),
        ),
        Rule(
            of="message",
            pattern=r"",
            types=r"AssertionError|ValueError|RuntimeError|Exception",
            at=r": (?:assert|raise|if) .*\bis(?:nan|inf|finite)\(",
            source="users' own guards without a message",
            weak=True,
            examples=(
                'Traceback (most recent call last):\n  File "/home/me/train.py", line 120, in train_one_epoch\n    assert torch.isfinite(loss).all()\nAssertionError',
                'Traceback (most recent call last):\n  File "loop.py", line 64, in fit\n    assert not torch.isnan(loss)\nAssertionError',
            ),
        ),
        Rule(
            of="log",
            pattern=r"(?i)\bloss is (?:nan|inf|-inf|non-?finite)\b|non-?finite loss|\bloss diverged|loss scale reached|stopping training.*\bnan\b|\bnan\b.*stopping training|detected (?:nan|inf)\b",
            source="training scripts that print and stop (DETR, MAE, torchvision's references)",
            weak=True,
            examples=(
                "Epoch: [0]  [  40/5004]  eta: 1:02:11  lr: 0.000100  loss: 6.9122 (6.9340)\nLoss is nan, stopping training\n{'loss_ce': tensor(nan, device='cuda:0')}",
                "WARNING: non-finite loss, ending training  tensor([nan, 0.1204, nan], device='cuda:0')",
            ),
        ),
        Rule(
            of="log",
            pattern=r"(?i)(?:^|[\s,;|{'\"(])(?:train_?|total_?|avg_?|mean_?)?loss['\"]?(?: ?[=:]| is) ?['\"]?-?(?:nan|inf)\b|NaN or Inf found in input tensor|Gradient overflow\.? +Skipping step",
            source="progress lines of training loops; torch/utils/tensorboard; apex",
            weak=True,
            examples=(
                "epoch 2 step 300 loss=4.1273\nepoch 2 step 400 loss=nan\nepoch 2 step 500 loss=nan",
                "NaN or Inf found in input tensor.\nNaN or Inf found in input tensor.",
            ),
        ),
    ),
)

DEVICE_ASSERT = Fault(
    name="device_assert",
    family="contract",
    title="a kernel refused its arguments; which operator is not known yet",
    first_check="Find the first line on standard error that names an assertion; without one, run firstfault locate, which launches kernels one at a time (CUDA_LAUNCH_BLOCKING=1).",
    avoid="Don't trust the line of the traceback: the device reports late. Don't go on in the same process: its context is dead.",
    also=("index_out_of_domain", "value_out_of_domain"),
    tell_apart="The assertion's condition, or firstfault locate, names the operator and the value.",
    on={
        "rocm": Advice(
            first_check="Run firstfault locate, which serialises kernels (AMD_SERIALIZE_KERNEL=3); usual ROCm builds print no assertion line, so that the operator has to be found by running.",
        ),
        "xpu": Advice(
            first_check="Find the first line on standard error that names an assertion; without one, run firstfault locate, which waits for the device after each operator.",
        ),
    },
    backends=("cuda", "rocm", "xpu"),
    late=1,
    rules=(
        Rule(
            of="assertion",
            pattern=r"",
            weak=True,
            source="any kernel whose condition the catalogue doesn't know",
            examples=(
                "/home/me/ext/csrc/knn_kernel.cu:55: knn_kernel: block: [1,0,0], thread: [3,0,0] Assertion `m == expected_m` failed.",
                "/pytorch/aten/src/ATen/native/cuda/Reduce.cuh:482: thread_reduce: block: [0,0,0], thread: [0,0,0] Assertion `output_vec_size == 1` failed.",
            ),
        ),
        Rule(
            pattern=r"device-side assert(?:ion)? (?:triggered|failed)|(?:cuda|hip)ErrorAssert|(?:cuda runtime|CUDA|HIP) error \(?(?:59|710)\)?\b",
            source="c10/cuda/CUDAException.cpp; THC/THCGeneral.cpp",
            examples=(
                "RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
                "RuntimeError: cuda runtime error (59) : device-side assert triggered at /pytorch/aten/src/THC/generic/THCTensorCopy.cpp:20",
                "torch.AcceleratorError: CUDA error: device-side assert triggered\nSearch for `cudaErrorAssert' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.",
            ),
        ),
    ),
)

CLASSES = (INDEX_OUT_OF_DOMAIN, VALUE_OUT_OF_DOMAIN, NONFINITE, DEVICE_ASSERT)
