"""Programs around the operators: checkpoints, compilers, several processes."""

from firstfault.faults.fault import Advice, Fault, Rule

_LOADING = r"torch[\\/]serialization\.py|torch[\\/]_weights_only_unpickler\.py|in load_state_dict|safetensors"

CHECKPOINT_MISMATCH = Fault(
    name="checkpoint_mismatch",
    family="contract",
    title="a checkpoint does not fit the model, or can't be read",
    first_check="Compare the keys and shapes of the file with those of the model; look for a 'module.' or '_orig_mod.' prefix, another number of classes, a file that is too short.",
    avoid="Don't set strict=False: weights that are silently left out train from scratch.",
    also=("environment_binary",),
    tell_apart="The message lists missing, unexpected and mis-shaped keys; a damaged file fails before it comes to keys.",
    rules=(
        Rule(
            pattern=r"Error\(s\) in loading state_dict|(?:Missing|Unexpected) key\(s\) in (?:\w+ )*state_dict|size mismatch for [\w.]+:? (?:copying|from)|[Mm]issing key in checkpoint|key\(?s?\)? .* (?:missing|not found) in (?:the )?(?:checkpoint|state_?dict)|Size mismatch between saved",
            source="torch/nn/modules/module.py; torch/distributed/checkpoint",
            examples=(
                'RuntimeError: Error(s) in loading state_dict for DataParallel:\n\tMissing key(s) in state_dict: "module.conv1.weight", "module.bn1.weight".\n\tUnexpected key(s) in state_dict: "conv1.weight", "bn1.weight".',
                "RuntimeError: Error(s) in loading state_dict for ResNet:\n\tsize mismatch for fc.weight: copying a param with shape torch.Size([1000, 2048]) from checkpoint, the shape in current model is torch.Size([37, 2048]).",
                "RuntimeError: Missing key in checkpoint state_dict: optimizer.state.module.layers.3.weight.step.",
            ),
        ),
        Rule(
            pattern=r"loaded state dict (?:contains a parameter group|has a different number)|doesn't match the size of optimizer's group|[Ww]hile copying the parameter named|Expected state_dict to be dict-like|[Ss]tate_?dict .*(?:does not match|doesn't match|mismatch)",
            source="torch/optim/optimizer.py; torch/nn/modules/module.py",
            examples=(
                "ValueError: loaded state dict contains a parameter group that doesn't match the size of optimizer's group",
                "ValueError: loaded state dict has a different number of parameter groups",
            ),
        ),
        Rule(
            pattern=r"PytorchStreamReader failed|PytorchStreamWriter failed|Weights only load failed|Invalid magic number; corrupt file|failed finding central directory|invalid load key|unexpected EOF, expected \d+ more bytes|MetadataIncompleteBuffer|(?:[Ee]rror while deserializing header|HeaderTooLarge|InvalidHeaderDeserialization)|not a ZIP archive|is a zip archive \(did you mean to use torch\.jit\.load|storage has wrong (?:byte )?size|Unable to load weights from (?:pytorch )?checkpoint|[Cc]orrupt(?:ed)? (?:checkpoint|file)|Unsupported (?:operand|global|class)[^.]*GLOBAL|Unsupported global: GLOBAL|unpickling stack underflow|(?:file|buffer) .{0,40}truncated.{0,40}checkpoint",
            source="torch/serialization.py, caffe2/serialize/inline_container.cc; safetensors; transformers",
            examples=(
                "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
                "_pickle.UnpicklingError: invalid load key, '<'.",
                "_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have two options, do those steps only if you trust the source of the checkpoint.\n\t(1) In PyTorch 2.6, we changed the default value of the `weights_only` argument in `torch.load` from `False` to `True`.",
                "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
            ),
        ),
        Rule(
            pattern=r"Attempting to deserialize object on (?:a )?\w+ ?device|don't know how to restore data location of",
            source="torch/serialization.py",
            examples=(
                "RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the CPU.",
                "RuntimeError: Attempting to deserialize object on CUDA device 3 but torch.cuda.device_count() is 1. Please use torch.load with map_location to map your storages to an existing device.",
            ),
        ),
        Rule(
            pattern=r"",
            types=r"(?:\w+\.)*(?:ModuleNotFoundError|ImportError|AttributeError|EOFError|UnpicklingError|UnicodeDecodeError|TypeError|KeyError)",
            through=r"torch[\\/]serialization\.py|_weights_only_unpickler\.py",
            source="torch/serialization.py: unpickling needs the classes that were pickled",
            examples=(
                '  File "/venv/lib/python3.8/site-packages/torch/serialization.py", line 592, in load\n    return _load(opened_zipfile, map_location, pickle_module, **pickle_load_args)\n  File "/venv/lib/python3.8/site-packages/torch/serialization.py", line 851, in _load\n    result = unpickler.load()\nModuleNotFoundError: No module named \'models\'',
                '  File "/venv/lib/python3.9/site-packages/torch/serialization.py", line 777, in _legacy_load\n    magic_number = pickle_module.load(f, **pickle_load_args)\nEOFError: Ran out of input',
            ),
        ),
        Rule(
            pattern=r"^['\"]?(?:model_?)?(?:state_dict|state|model|optimizer\w*|net\w*|weights|params|epoch|ema|scheduler|lr_scheduler|hyper_parameters|global_step)['\"]?$",
            types=r"KeyError",
            at=r"(?i)(?:ckpt|checkpoint|state_?dict|loaded|saved|snapshot|resume|pretrain\w*|weights?)\w*\[",
            source="scripts that read their own checkpoints",
            examples=(
                "  File \"test.py\", line 44, in main\n    model.load_state_dict(checkpoint['state_dict'])\nKeyError: 'state_dict'",
                '  File "resume.py", line 12, in resume\n    optimizer.load_state_dict(ckpt["optimizer"])\nKeyError: \'optimizer\'',
            ),
        ),
    ),
)

COMPILE_FAILURE = Fault(
    name="compile_failure",
    family="environment",
    title="the compiled form of the program fails",
    first_check="Run the same batch without compilation (firstfault compare, or TORCH_COMPILE_DISABLE=1): does eager fail too?",
    avoid="Don't silence it with suppress_errors: an eager failure would hide behind it.",
    also=("shape_mismatch", "environment_binary"),
    tell_apart="If eager fails in the same way, the compiler isn't the cause; TORCHDYNAMO_REPRO_AFTER tells the compiler's own steps apart.",
    rules=(
        Rule(
            of="type",
            pattern=r"BackendCompilerFailed$|LoweringException$|InductorError$|CppCompileError$|CUDACompileError$|CompilationError$|CompileTimeAssertionFailure$|OutOfResources$|PTXASError$|NoValidChoicesError$|InvalidCxxCompiler$|SubprocException$|TritonMissing$|MissingOperator\w+$|GuardOnDataDependentSymNode$|PendingUnbackedSymbolNotFound$|ConstraintViolationError$|(?:torch\._dynamo\.exc|torch\._inductor\.exc|torch\._export|torch\.fx\.experimental\.symbolic_shapes|torch\.fx\.\w+)\.\w+$|InternalTorchDynamoError$|FailOnRecompileLimitHit$|RecompileLimitExceeded$|triton\.(?:compiler|runtime|language)\.\S+$|UnsupportedLanguageConstruct$|MLIRCompilationError$|TraceError$|NotSupportedError$|UnsupportedNodeError$|UnsupportedOperatorError$|OnnxExporterError$|TracingCheckError$",
            unless=r"out of memory|OutOfMemoryError",
            source="torch/_dynamo/exc.py, torch/_inductor/exc.py, triton/compiler/errors.py, torch/jit/frontend.py",
            examples=(
                "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nRuntimeError: Cannot find a working triton installation. More information on installing Triton can be found at https://github.com/openai/triton",
                "torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print) [ConstantVariable(str)] {}",
                "torch._inductor.exc.InductorError: CppCompileError: C++ compile error",
                "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.",
                "torch.jit.frontend.NotSupportedError: Compiled functions can't take variable number of arguments or use keyword-only arguments with defaults:",
            ),
        ),
        Rule(
            # Fake tensors refuse what eager would refuse, so the operator's own message comes first.
            of="type",
            pattern=r"TorchRuntimeError$",
            source="torch/_dynamo/exc.py",
            weak=True,
            examples=(
                "torch._dynamo.exc.TorchRuntimeError: Failed running call_method tolist(*(FakeTensor(..., size=(3,)),), **{}):\nunexpected node in the graph",
                "torch._dynamo.exc.TorchRuntimeError: Dynamo failed to run FX node with fake tensors: call_function <built-in method my_op of PyCapsule object>(*(), **{}): got RuntimeError('unhandled')",
            ),
        ),
        Rule(
            pattern=r"LoweringException: |BackendCompilerFailed|InductorError: |backend='\w+' raised|Internal[A-Za-z]* ?torch dynamo error|torch\._dynamo hit (?:config\.\w+_limit|the)|Dynamo (?:does not know how to trace|failed to)|C\+\+ compile error|Could not guard on data-dependent|data-dependent (?:expression|branching|control flow)|Graph break|Cannot find a working triton|No valid triton configs|Triton Error \[|error: 'tt\.\w+' op|PassManager::run failed|Failed to compile (?:generated )?Triton|Unsupported(?: context manager)?: (?:call_\w+|hasattr|generator|Data-dependent|Dynamic|\w+Variable)|Tried to trace .* but it is not part of the active trace|fullgraph=True|torch\.compile .*(?:not supported|requires)|Windows not yet supported for torch\.compile|Dynamo is not supported on|cudagraphs? .*(?:overwritten by a subsequent run|dynamic)|has been overwritten by a subsequent run",
            unless=r"out of memory|OutOfMemoryError",
            source="torch/_dynamo, torch/_inductor, triton",
            examples=(
                "backend='inductor' raised:\nLoweringException: AttributeError: 'View' object has no attribute 'layout'\n  target: aten.convolution.default",
                'RuntimeError: Error: accessing tensor output of CUDAGraphs that has been overwritten by a subsequent run. Stack trace: File "model.py", line 11, in forward',
                "RuntimeError: Windows not yet supported for torch.compile",
            ),
        ),
        Rule(
            pattern=r"torch\.jit\.frontend\.\w+|Could not (?:export|get name of) Python (?:class|function)|Unknown (?:builtin|type) op|Arguments for call are not valid|Tracer cannot infer type|Tracing failed sanity checks|Expected integer literal for index|cannot be (?:scripted|compiled) ",
            source="torch/csrc/jit/frontend",
            examples=(
                "RuntimeError: \nUnknown builtin op: aten::scatter_reduce_.\nCould not find any similar ops to aten::scatter_reduce_.",
                "torch.jit._trace.TracingCheckError: Tracing failed sanity checks!\nERROR: Graphs differed across invocations!",
            ),
        ),
        Rule(
            pattern=r"",
            at=r"[\\/](?:torch[\\/](?:_dynamo|_inductor|_functorch|_export|fx[\\/]experimental)|triton)[\\/]",
            source="torch/_dynamo, torch/_inductor, triton: the compiler's own code raised",
            weak=True,
            examples=(
                "  File \"/venv/lib/python3.11/site-packages/torch/_inductor/ir.py\", line 2204, in create\n    data.realize()\nAttributeError: 'View' object has no attribute 'realize'",
                '  File "/venv/lib/python3.12/site-packages/triton/compiler/code_generator.py", line 1190, in visit_Call\n    fn = self.visit(node.func)\nAssertionError',
            ),
        ),
    ),
)

DDP_UNUSED = Fault(
    name="ddp_unused",
    family="contract",
    title="DistributedDataParallel's parameters and the gradients of a step do not match",
    first_check="Name the parameters without a gradient after one backward on one process; when one is 'marked ready twice', look for a module that is called or checkpointed twice.",
    avoid="Don't set find_unused_parameters=True before you know whether they should have been used.",
    also=("distributed",),
    tell_apart="If the same parameters are unused on every rank, it is the model; if only for some batches, the data.",
    rules=(
        Rule(
            pattern=r"Expected to have finished reduction in the prior iteration|parameters that were not used in producing (?:the )?loss|did not receive grad for rank|find_unused_parameters=True",
            unless=r"find_unused_parameters=True was specified|marked (?:as )?ready twice",
            source="torch/csrc/distributed/c10d/reducer.cpp",
            examples=(
                "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that were not used in producing loss. You can enable unused parameter detection by passing the keyword argument `find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`\nParameter indices which did not receive grad for rank 1: 160 161",
                "RuntimeError: It looks like your LightningModule has parameters that were not used in producing the loss returned by training_step. If this is intentional, you must enable the detection of unused parameters in DDP, either by setting the string value `strategy='ddp_find_unused_parameters_true'` or by setting the flag in the strategy with `strategy=DDPStrategy(find_unused_parameters=True)`.",
            ),
        ),
        Rule(
            pattern=r"Expected to mark a variable ready only once|[Mm]arked (?:as )?ready twice|has been marked as ready",
            source="torch/csrc/distributed/c10d/reducer.cpp",
            examples=(
                "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons: 1) Use of a module parameter outside the `forward` function.",
                "RuntimeError: Expected to mark a variable ready only once. Parameter at index 191 with name encoder.layer.11.output.dense.bias has been marked as ready twice.",
            ),
        ),
    ),
)

DISTRIBUTED = Fault(
    name="distributed",
    family="process",
    title="processes lost one another, or never met",
    first_check="Find the rank that failed first, and what it says before any time-out or reset connection.",
    avoid="Don't raise the time-out: the ranks that wait are the consequence, not the cause.",
    also=("ddp_unused", "out_of_memory"),
    tell_apart="A rank with an exception of its own comes first; if all only time out, they disagree on the order or the shapes of collectives.",
    on={
        "rocm": Advice(tell_apart="As on CUDA; RCCL's own log is turned on with NCCL_DEBUG=INFO as well."),
    },
    late=5,
    rules=(
        Rule(
            pattern=r"[Ww]atchdog caught collective operation timeout|collective operation timeout|\bR?NCCL (?:error|Error|timeout|failure|communicator was aborted|operation failed|WARN)|nccl(?:Internal|System|UnhandledCuda|Remote|Invalid\w+)Error|unhandled (?:system|cuda) error|ncclCommInit|NCCL backend|NCCL version .* unhandled|Duplicate GPU detected|DDP expects (?:the )?same model|HeartbeatMonitor|Some NCCL operations have failed or timed out|terminate called after throwing .*DistBackendError|ProcessGroup(?:NCCL|Gloo|MPI|XCCL|HCCL|UCC)?\S* .*(?:[Ee]xception|[Ee]rror|[Tt]imeout|not|abort)",
            source="torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, NCCLUtils.cpp",
            examples=(
                "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1331, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.1\nncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\nLast error:\nsocketStartConnect: Connect to 10.1.2.3<42311> failed : Software caused connection abort",
                "[E ProcessGroupNCCL.cpp:475] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1402, OpType=_ALLGATHER_BASE, NumelIn=33554432, NumelOut=268435456, Timeout(ms)=1800000) ran for 1800311 milliseconds before timing out.",
                "[rank2]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 2.",
                "RuntimeError: DDP expects same model across all ranks, but Rank 0 has 62 params, while rank 1 has inconsistent 0 params.",
            ),
        ),
        Rule(
            pattern=r"Connection (?:reset|closed|aborted|refused)|Connection (?:reset|closed) by peer|[Bb]roken pipe|[Ss]ocket [Tt]imeout|store->get|wait timeout after|wait\(\) timed out|TCPStore|\bDist(?:Store|Network|Backend|Queue)Error|Timed out (?:initializing|waiting)|[Tt]imed out after \d+ ?(?:ms|seconds) waiting|Detected mismatch between collectives|op\.preamble\.length <= op\.nbytes|appears not to match (?:sizes of the same param|strides)|inconsistent (?:shapes|tensor sizes|params) across ranks|different (?:shapes|number of \w+) (?:across|on) ranks|client socket has|server socket has failed",
            source="torch/csrc/distributed/c10d: TCPStore.cpp, socket.cpp, ProcessGroupGloo.cpp, ProcessGroupWrapper.cpp",
            through=r"distributed|torchrun|gloo|lightning|accelerate|deepspeed|horovod",
            weak=True,
            examples=(
                '  File "/opt/conda/lib/python3.10/site-packages/torch/distributed/distributed_c10d.py", line 2806, in all_reduce\n    work.wait()\nRuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error [10.0.0.7]:51712: Connection reset by peer',
                '  File "/v/lib/python3.9/site-packages/torch/distributed/rendezvous.py", line 188, in _create_c10d_store\n    return TCPStore(\nRuntimeError: Socket Timeout',
            ),
        ),
        Rule(
            pattern=r"gloo/transport|third_party/gloo|[Gg]loo connectFullMesh failed|store->get\(|TCPStore\b|\bDist(?:Store|Network|Backend|Queue)Error|Timed out initializing process group|Detected mismatch between collectives|op\.preamble\.length <= op\.nbytes|appears not to match (?:sizes of the same param|strides)|client socket has (?:timed out|failed)|server socket has (?:failed|timed out)|(?:\[c10d\]|c10d) .*(?:failed|timed out|error)|[Dd]efault process group has not been initialized|No backend type associated with device type|[Ii]nvalid (?:rank|scalar type for) .*process group|Group rank \S+ not|[Tt]ensors must be CUDA and dense|Expected env(?:ironment)? var(?:iable)? (?:RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT)|environment variable (?:RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected|trying to initialize the default process group twice|EADDRINUSE|[Aa]ddress already in use|[Rr]endezvous\w*(?:Error|Closed|Timeout|Connection)|Monitored [Bb]arrier|monitoredBarrier|failed to pass monitoredBarrier|Ranks? \d+ (?:successfully|failed) reached|all ranks (?:must|should)|on all ranks\b.{0,40}(?:mismatch|differ)|MPI_ABORT|ORTE|collective .* (?:mismatch|desync)|CollectiveFingerPrint|process group .* (?:is not initialized|destroyed)|world_size .* (?:not|must)|torch\.distributed\.\w+ .*(?:timed out|timeout)",
            source="torch/csrc/distributed/c10d; torch/distributed/distributed_c10d.py, rendezvous.py",
            examples=(
                "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
                "ValueError: Default process group has not been initialized, please make sure to call init_process_group.",
                "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=17, OpType=ALLREDUCE, TensorShape=[128]), but Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=17, OpType=BROADCAST).",
                "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  [enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 8192 vs 4096",
            ),
        ),
        Rule(
            of="type",
            pattern=r"(?:DistBackendError|DistNetworkError|DistStoreError|Rendezvous\w*Error|ChildFailedError|ProcessExitedException|WorkerGroupFailureException)$",
            source="torch/distributed; torch/multiprocessing/spawn.py",
            unless=r"SIGKILL",
            weak=True,
            examples=(
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n============================================================\ntrain.py FAILED\n------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n------------------------------------------------------------\nRoot Cause (first observed failure):\n[0]:\n  time      : 2024-03-02_11:20:47\n  host      : node07\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 20441)\n  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
                "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with exit code 1",
                "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.",
            ),
        ),
        Rule(
            of="log",
            pattern=r"Sending process \d+ closing signal SIGTERM|failed \(exitcode: -?\d+\) local_rank|Stop_waiting response is expected|Root Cause \(first observed failure\)|torch\.distributed\.run: FAILED|Received \d+ death signal",
            unless=r"exitcode: -9|SIGKILL",
            weak=True,
            source="torch/distributed/elastic",
            examples=(
                "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 44120 closing signal SIGTERM\nERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 44119) of binary: /usr/bin/python3",
                "torch.distributed.elastic.multiprocessing.api.SignalException: Process 3120 got signal: 15\nE1012 09:11:17.303 api.py:869] failed (exitcode: -15) local_rank: 2 (pid: 3121) of binary: /opt/venv/bin/python",
            ),
        ),
    ),
)

CLASSES = (CHECKPOINT_MISMATCH, COMPILE_FAILURE, DDP_UNUSED, DISTRIBUTED)
