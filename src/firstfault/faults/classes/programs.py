"""Programs around the operators: checkpoints, compilers, several processes."""

from firstfault.faults.fault import Fault, Rule

CHECKPOINT_MISMATCH = Fault(
    name="checkpoint_mismatch",
    family="contract",
    title="a checkpoint does not fit the model, or can't be read",
    first_check="Compare the keys and shapes of the file with those of the model; look for a 'module.' or '_orig_mod.' prefix.",
    avoid="Don't set strict=False: weights that are silently left out train from scratch.",
    also=("environment_binary",),
    tell_apart="The message lists missing, unexpected and mis-shaped keys; a damaged file fails before it comes to keys.",
    rules=(
        Rule(pattern=r"Error\(s\) in loading state_dict|(?:Missing|Unexpected) key\(s\) in state_dict|size mismatch for [\w.]+: copying a param", source="torch/nn/modules/module.py"),
        Rule(pattern=r"loaded state dict (?:contains a parameter group|has a different number)|doesn't match the size of optimizer's group", source="torch/optim/optimizer.py"),
        Rule(pattern=r"PytorchStreamReader failed|Weights only load failed|Invalid magic number; corrupt file|failed finding central directory|invalid load key|unexpected EOF, expected \d+ more bytes|MetadataIncompleteBuffer|Error while deserializing header|Attempting to deserialize object on (?:a )?CUDA device|not a ZIP archive|Ran out of input", source="torch/serialization.py, safetensors"),
    ),
)

COMPILE_FAILURE = Fault(
    name="compile_failure",
    family="environment",
    title="the compiled form of the program fails",
    first_check="Run the same batch without compilation (firstfault compare): does eager fail too?",
    avoid="Don't silence it with suppress_errors: an eager failure would hide behind it.",
    also=("shape_mismatch", "environment_binary"),
    tell_apart="If eager fails in the same way, the compiler isn't the cause.",
    rules=(
        Rule(pattern=r"BackendCompilerFailed|torch\._dynamo\.exc\.\w+|torch\._inductor\.exc\.\w+|InductorError|LoweringException|CppCompileError|torch\._dynamo hit|triton\.(?:compiler|runtime)\.[\w.]*(?:Error|OutOfResources)|CompilationError|OutOfResources|TorchRuntimeError|GuardOnDataDependentSymNode|ConstraintViolationError|FailOnRecompileLimitHit", source="torch/_dynamo/exc.py, torch/_inductor/exc.py"),
        Rule(pattern=r"torch\.jit\.frontend\.\w+|The following operation failed in the TorchScript interpreter|RuntimeError: Unsupported: |Unsupported: (?:call_|hasattr|generator|Data-dependent|Dynamic)", source="torch/jit/frontend.py"),
    ),
)

DDP_UNUSED = Fault(
    name="ddp_unused",
    family="contract",
    title="parameters took no part in the loss of a step",
    first_check="Name the parameters without a gradient after one backward on one process.",
    avoid="Don't set find_unused_parameters=True before you know whether they should have been used.",
    also=("distributed",),
    tell_apart="If the same parameters are unused on every rank, it is the model; if only for some batches, the data.",
    rules=(
        Rule(pattern=r"Expected to have finished reduction in the prior iteration|parameters that were not used in producing loss|Expected to mark a variable ready only once|marked (?:as )?ready twice", source="torch/csrc/distributed/c10d/reducer.cpp"),
    ),
)

DISTRIBUTED = Fault(
    name="distributed",
    family="process",
    title="processes lost one another",
    first_check="Find the rank that failed first, and what it says before any time-out or reset connection.",
    avoid="Don't raise the time-out: the ranks that wait are the consequence, not the cause.",
    also=("ddp_unused", "out_of_memory"),
    tell_apart="A rank with an exception of its own comes first; if all only time out, they disagree on the order or the shapes of collectives.",
    late=True,
    rules=(
        Rule(pattern=r"Watchdog caught collective operation timeout|NCCL (?:error|timeout|communicator was aborted)|ncclInternalError|ncclSystemError|ncclUnhandledCudaError|ncclRemoteError|ProcessGroupNCCL|ProcessGroupGloo|unhandled (?:system|cuda) error, NCCL|RCCL", source="torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp"),
        Rule(pattern=r"Connection (?:reset|closed) by peer|Connection refused|Broken pipe|Socket Timeout|store->get|wait timeout after|TCPStore|DistStoreError|DistNetworkError|DistBackendError|Timed out (?:initializing|waiting) (?:process group|\d+ms)|Detected mismatch between collectives|op\.preamble\.length <= op\.nbytes|Address already in use|EADDRINUSE|Default process group has not been initialized|ChildFailedError|RendezvousTimeoutError|Gloo connectFullMesh failed|gloo/transport", source="torch/csrc/distributed/c10d"),
    ),
)

CLASSES = (CHECKPOINT_MISMATCH, COMPILE_FAILURE, DDP_UNUSED, DISTRIBUTED)
