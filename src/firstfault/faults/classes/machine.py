"""Memory, devices, libraries, builds: what the machine gives or refuses."""

from firstfault.faults.fault import Advice, Fault, Rule

OUT_OF_MEMORY = Fault(
    name="out_of_memory",
    family="resource",
    title="the device's memory is exhausted",
    first_check="Read the request and the free, allocated and reserved memory in the message; compare this batch's sizes with the others', and memory at this step with the first steps.",
    avoid="Don't halve the batch size at once: a graph that is held, or one long sample, comes back later.",
    also=("graph_freed", "host_memory"),
    tell_apart="Memory that grows step by step is a held graph; one step that is larger than all others is a long sample; much that is reserved and unallocated is fragmentation; little of one's own is another process.",
    on={
        "mps": Advice(
            tell_apart="MPS shares the host's memory: other programs count too, and PYTORCH_MPS_HIGH_WATERMARK_RATIO is only the limit.",
        ),
    },
    backends=("cuda", "rocm", "mps", "xpu"),
    about_the_machine=True,
    rules=(
        Rule(
            of="type",
            pattern=r"(?:^|\.)OutOfMemoryError$",
            source="torch/csrc/Exceptions.cpp, since torch 1.13",
            examples=(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 508.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which 92.19 MiB is free. Process 11811 has 23.54 GiB memory in use. Of the allocated memory 22.31 GiB is allocated by PyTorch, and 799.40 MiB is reserved by PyTorch but unallocated.",
                "torch.cuda.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 11.06 GiB\nRequested               : 1.11 GiB",
            ),
        ),
        Rule(
            pattern=r"(?:CUDA|cuda|HIP|XPU|NPU|MPS backend|HPU|Triton|GPU|[Dd]evice) out of memory|(?:CUDA|HIP) error:? ?(?:\(?2\)? ?:? ?)?out of memory|cuda runtime error \(2\)|\bhipErrorOutOfMemory|\bcudaErrorMemoryAllocation|UR_RESULT_ERROR_OUT_OF_(?:DEVICE|HOST)_MEMORY|UR_RESULT_ERROR_OUT_OF_RESOURCES|out of memory\. Tried to allocate|Tried to allocate [\d.]+ [KMGT]iB|Cuda failure \d* ?'out of memory'|cudaMalloc failed: out of memory|CL_OUT_OF_RESOURCES|Native API failed.*OUT_OF|Allocation on device .*(?:exceed|failed)|kIOGPUCommandBufferCallbackErrorOutOfMemory|Invalid buffer size: [\d.]+ [GMT]i?B|CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED",
            source="c10/cuda/CUDACachingAllocator.cpp; ATen/mps/MPSAllocator.mm; c10/xpu; THC, torch 0.x to 1.1",
            unless=r"DefaultCPUAllocator|DefaultMobileCPUAllocator",
            examples=(
                "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity; 6.34 GiB already allocated; 18.25 MiB free; 6.49 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.",
                "RuntimeError: MPS backend out of memory (MPS allocated: 17.25 GB, other allocations: 512.00 KB, max allowed: 18.13 GB). Tried to allocate 1.00 GB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).",
                "RuntimeError: cuda runtime error (2) : out of memory at /opt/conda/conda-bld/pytorch_1512387374934/work/torch/lib/THC/generic/THCStorage.cu:58",
                "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 18.00 MiB. GPU 0 has a total capacity of 15.98 GiB of which 10.00 MiB is free.",
            ),
        ),
    ),
)

HOST_MEMORY = Fault(
    name="host_memory",
    family="resource",
    title="the host's memory, shared memory or open files are exhausted",
    first_check="Look at the memory of all processes, the container's limit, the size of /dev/shm and ulimit -n while the run goes on; compare the size asked for with what is sensible.",
    avoid="Don't take it for the device's memory, and don't take a killed process for a bug of its own.",
    also=("dataloader_worker", "out_of_memory"),
    tell_apart="The kernel's log (dmesg) names the process that it killed; a bus error is shared memory; a size of terabytes is a wrong number, not a small machine.",
    about_the_machine=True,
    rules=(
        Rule(
            pattern=r"killed by signal: (?:Bus error|Killed)|out of shared memory|[Ii]nsufficient shared memory|unable to (?:write to|open|resize|allocate|mmap|map|create) (?:\w+ ){0,3}(?:file|shared memory)|[Uu]nable to allocate shared memory|[Cc]ouldn't (?:open|map) (?:shared|file mapping)|torch_shm_manager|/dev/shm|No space left on device[^\n]*(?:shm|torch_|pymp)|error while (?:opening|mapping) shared|Bus error",
            source="torch/utils/data/_utils/signal_handling.py; ATen/MapAllocator.cpp",
            unless=r"segfault|Shared memory manager connection has timed out|out of resource: shared memory",
            examples=(
                "RuntimeError: DataLoader worker (pid 97) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
                "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\nRuntimeError: DataLoader worker (pid 284) is killed by signal: Bus error.",
                "RuntimeError: unable to write to file </torch_1181_2094783021_12>",
                "RuntimeError: DataLoader worker (pid 16560) is killed by signal: Killed.",
            ),
        ),
        Rule(
            pattern=r"Default(?:Mobile)?CPUAllocator: (?:can't allocate|not enough) memory|not enough memory: you tried to allocate|[Uu]nable to allocate [\d.]+ [KMGTPE]i?B|Cannot allocate memory|std::bad_alloc|[Oo]om-kill|[Oo]ut of memory: Kill(?:ed)? process|OOM[ -]?[Kk]ill|[Tt]oo many open files|received 0 items of ancdata|paging file is too small|\bcgroup out of memory|Memory cgroup out of memory|exceeded (?:job |step )?memory limit|Storage size calculation overflowed|alloc_cpu\.cpp|bad allocation|ENOMEM\b|[Oo]ut of (?:host|system) memory|failed to allocate (?:host )?memory|[Cc]an't allocate memory",
            source="c10/core/CPUAllocator.cpp; NumPy; glibc; the Linux kernel; Slurm",
            examples=(
                "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 38654705664 bytes. Error code 12 (Cannot allocate memory)",
                "RuntimeError: [enforce fail at ..\\c10\\core\\CPUAllocator.cpp:79] data. DefaultCPUAllocator: not enough memory: you tried to allocate 9437184 bytes.",
                'OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading "C:\\Python39\\lib\\site-packages\\torch\\lib\\caffe2_detectron_ops.dll" or one of its dependencies.',
                "RuntimeError: Too many open files. Communication with the workers is no longer possible. Please increase the limit using `ulimit -n` in the shell or change the sharing strategy by calling `torch.multiprocessing.set_sharing_strategy('file_system')` at the beginning of your code",
                "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=881204.0. Some of your processes may have been killed by the cgroup out-of-memory handler.",
            ),
        ),
        Rule(
            of="type",
            pattern=r"MemoryError$",
            source="Python; NumPy",
            examples=(
                '  File "prepare.py", line 20, in load\n    rows = [line.split() for line in handle]\nMemoryError',
                "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 19.6 GiB for an array with shape (60000, 3, 224, 224) and data type float32",
            ),
        ),
        Rule(
            of="log",
            pattern=r"^(?:.*: line \d+: *)?(?:\[\d+\]\s*[+-]?\s*)?(?:\d+ )?Killed\b(?: +\S.*)?$|\(exitcode: -9\)|exitcode *: -9\b|Signal 9 \(SIGKILL\) received|died with <Signals\.SIGKILL|exit(?:ed with)? (?:code|status) 137\b|terminated (?:by|with) signal (?:9|SIGKILL)",
            source="the shell, torchelastic, container runtimes: SIGKILL, which on Linux is the kernel's memory killer more often than anybody else",
            weak=True,
            examples=(
                "Loading checkpoint shards:  67%|######6   | 2/3 [00:41<00:20, 20.61s/it]\nrun.sh: line 14: 88123 Killed                  python finetune.py --bf16",
                "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 (pid: 2311) of binary: /usr/bin/python3\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n  exitcode  : -9 (pid: 2311)\n  traceback : Signal 9 (SIGKILL) received by PID 2311",
            ),
        ),
    ),
)

KERNEL_UNAVAILABLE = Fault(
    name="kernel_unavailable",
    family="environment",
    title="there is no kernel for this operator, dtype or device",
    first_check="Compare the device's compute capability with torch.cuda.get_arch_list(), the extension's build with torch's version, and the dtype with what the operator supports there.",
    avoid="Don't reinstall everything, and don't look at the data: one of build, extension, dtype or back end doesn't have this kernel.",
    also=("environment_binary", "dtype_mismatch"),
    tell_apart="'no kernel image' is the build; 'not implemented for' is the dtype; 'Could not run' is the back end; firstfault compare tries float32 and the CPU.",
    on={
        "rocm": Advice(
            first_check="Compare the device's architecture (rocminfo: gfx…) with torch.cuda.get_arch_list(), which lists gfx names on ROCm, and the extension's build with torch's version.",
        ),
        "mps": Advice(
            first_check="Look whether the operator and the dtype exist on MPS (there is no float64): try the call on the CPU, and in float32.",
        ),
        "cpu": Advice(
            first_check="Look at the dtype that the message names: many operators have no half-precision kernel on the CPU; try float32 or bfloat16, or a newer torch.",
        ),
        "xpu": Advice(
            first_check="Look whether the operator and the dtype exist on XPU in this version: try the call on the CPU.",
        ),
    },
    rules=(
        Rule(
            pattern=r"no kernel image is available|hipErrorNoBinaryForGpu|invalid device function|is not compatible with the current PyTorch installation|device kernel image is invalid|Unable to find code object for all current devices|named symbol not found|cudaErrorNoKernelImageForDevice|cuda runtime error \((?:8|48|98|209)\)|HSA_STATUS_ERROR_INVALID_ISA|PyTorch no longer supports this GPU because it is too old|invalid value for --gpu-architecture|Unsupported gpu architecture|no (?:suitable )?kernels? (?:found|image)|is too old to be supported by|[Cc]annot find Function .*gfx|shared object initialization failed",
            source="c10/cuda/CUDAException.cpp, torch/cuda/__init__.py; HIP",
            examples=(
                "RuntimeError: CUDA error: no kernel image is available for execution on the device",
                "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\nThe current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.\nRuntimeError: CUDA error: no kernel image is available for execution on the device",
                "RuntimeError: HIP error: invalid device function\nHIP kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\nFor debugging consider passing AMD_SERIALIZE_KERNEL=3",
                'rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such file or directory for GPU arch : gfx1031\n"hipErrorNoBinaryForGpu: Unable to find code object for all current devices!"',
            ),
        ),
        Rule(
            pattern=r"\"?[\w:<>, ]+\"? not implemented for '\w+'|[\w:]+ is not implemented for type|\w+ is not implemented (?:for|on) (?:type )?\w*(?:Half|BFloat16|Float8|CPU|cpu|float16|bfloat16)\w*",
            source="ATen/Dispatch.h; TH, torch 0.x to 1.2",
            examples=(
                "RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'",
                "RuntimeError: \"upsample_nearest2d_out_frame\" not implemented for 'BFloat16'",
                "RuntimeError: _th_addmm_out not supported on CPUType for Half\nRuntimeError: \"slow_conv2d_cpu\" not implemented for 'Half'",
            ),
        ),
        Rule(
            pattern=r"Could not run '[\w:.]+' (?:with arguments )?from the '\w+' backend|is not currently (?:implemented|supported) (?:for|on) the \w+ (?:device|backend)|not (?:currently )?(?:implemented|supported)(?: yet)? (?:for|on|by) (?:the )?(?:MPS|XPU|HPU|NPU|DirectML|PrivateUse1)|Cannot convert a MPS Tensor to float64|MPS (?:framework |backend |device )?does ?n[o']t support|doesn't support (?:float64|complex|bfloat16)|BFloat16 is not supported on MPS|is (?:only|not) (?:available|implemented|supported) (?:on|for|with) (?:CUDA|GPU|CPU|cpu|cuda|ROCm|Windows)|(?:not|only) supported on \w*CPU\w* (?:for|tensors)|not supported on \w+Type for|(?:only|currently) (?:works|runs|available) (?:on|with) (?:CUDA|GPU)|[Nn]o kernel found|Error: no kernel|Not compiled with (?:GPU|CUDA) support|not compiled with GPU support|compiled without (?:GPU|CUDA) support|Not implemented on the CPU|is not implemented on (?:the )?(?:CPU|GPU)",
            source="ATen/core/dispatch/OperatorEntry.cpp; ATen/mps; extensions without CUDA",
            unless=r"Torch not compiled with CUDA",
            examples=(
                "NotImplementedError: Could not run 'torchvision::nms' with arguments from the 'CUDA' backend. This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom build).",
                "NotImplementedError: The operator 'aten::_fft_r2c' is not currently implemented for the MPS device. If you want this op to be added in priority during the prototype phase of this feature, please comment on the issue.",
                "TypeError: Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 instead.",
                "RuntimeError: Not compiled with GPU support",
            ),
        ),
        Rule(
            pattern=r"FlashAttention only supports (?!fp16|head)|No available kernel|No operator found for `?\w+attention|Expected is_sm\d|(?:requires?|needs?|supported on|only (?:works|supported)) .{0,40}(?:compute capability|CUDA capability|Ampere|Hopper|sm_?\d\d)|[Bb]?float(?:16|8) is only supported on|doesn't (?:support|have) (?:bf16|bfloat16)|bf16.{0,30}(?:not supported|requires)|cutlassF: no kernel|the derivative for '?[\w:.]+'? is not implemented|derivative for [\w:.]+ is not implemented|[Cc]urrent platform does not support|feature requires (?:a )?(?:compute|cuda) capability",
            source="ATen/native/transformers; flash-attn; xformers; torch/csrc/autograd",
            examples=(
                "RuntimeError: FlashAttention only supports Ampere GPUs or newer.",
                "RuntimeError: No available kernel. Aborting execution.",
                "NotImplementedError: No operator found for `memory_efficient_attention_forward` with inputs:\n     query       : shape=(1, 4096, 8, 40) (torch.float32)\n`cutlassF` is not supported because:\n    device=cpu (supported: {'cuda'})",
                "RuntimeError: derivative for aten::grid_sampler_2d_backward is not implemented",
            ),
        ),
        Rule(
            pattern=r"^(?:aten|prims|torchvision|quantized|[a-z]\w*)(?:::|\.)\w+(?:\.\w+)*$|(?:NestedTensor|[Nn]ested tensors?|[Ss]parse\w*|[Qq]uantized\w*|[Cc]omplex\w*|[Mm]eta).{0,40}(?:not (?:yet )?(?:supported|implemented)|unsupported)",
            types=r"NotImplementedError",
            source="torch/nested/_internal/ops.py; ATen",
            examples=(
                "NotImplementedError: aten.index.Tensor",
                "NotImplementedError: NestedTensor does not yet support this: nested tensors are not supported by aten::roll",
            ),
        ),
    ),
)

ENVIRONMENT_BINARY = Fault(
    name="environment_binary",
    family="environment",
    title="binaries of the environment do not fit together, or are missing",
    first_check="Print the versions of torch, its CUDA or ROCm, the driver and the extension that is named (firstfault doctor, nvidia-smi); one doesn't match the others.",
    avoid="Don't change the training code, and don't upgrade several packages at once.",
    also=("kernel_unavailable",),
    tell_apart="firstfault doctor shows versions and devices, and whether a small computation works.",
    on={
        "rocm": Advice(
            first_check="Print the versions of torch, its HIP, the amdgpu driver and the extension that is named (firstfault doctor, rocminfo), and look whether the user may open /dev/kfd.",
        ),
        "mps": Advice(
            first_check="Print the versions of torch, macOS and the extension that is named (firstfault doctor)."
        ),
        "cpu": Advice(
            first_check="Print the versions of torch and of the extension that is named (firstfault doctor), and look whether the build is one for a GPU at all (torch.version.cuda)."
        ),
    },
    about_the_machine=True,
    rules=(
        Rule(
            pattern=r"undefined symbol|cannot open shared object file|DLL load failed|symbol lookup error|version `\w+_[\d.]+' not found|Library not loaded|[Ss]ymbol not found|wrong ELF class|cannot allocate memory in static TLS block|image not found|invalid ELF header|procedure could not be found|Error loading \"?.*\.(?:dll|so)|Cannot load (?:symbol|libmkl|mkl_)|Could not load (?:dynamic )?library|[Uu]nable to (?:load|find|locate|open) .*(?:cudnn|cublas|libcuda|nvrtc|libcudart)\S*|Could not locate cudnn|libnvrtc.*(?:not found|error)|mach-o.*(?:incompatible|wrong) architecture|[Ii]nvalid handle\. Cannot load symbol|is not a valid Win32 application",
            source="the dynamic linker",
            unless=r"paging file|out of memory",
            examples=(
                "ImportError: /home/me/.local/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
                "OSError: libcudart.so.10.2: cannot open shared object file: No such file or directory",
                "ImportError: DLL load failed while importing _C: The specified procedure could not be found.",
                "ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /opt/env/lib/python3.11/site-packages/torchaudio/lib/libtorchaudio.so)",
            ),
        ),
        Rule(
            pattern=r"[Oo]perator torchvision::\w+ does not exist|[Cc]ouldn't load custom C\+\+ ops|[Nn]o such operator \w+::\w+|compiled (?:with|using|against) (?:a different|NumPy 1|an older|NumPy version|a newer)|[Nn]umpy is not available|numpy\.(?:dtype|ufunc) size changed|module compiled against API version|[Dd]etected (?:CUDA|that) .*mismatch|CUDA version .{0,40} mismatch\w*|were compiled with different CUDA|different CUDA (?:major )?versions|PyTorch has CUDA Version=|PyTorch (?:version|was compiled with) .{0,60}(?:but|and) .{0,40}(?:version|CUDA)|incompatible with this version of (?:PyTorch|torch)|_C.{0,30}(?:cannot|could not) be (?:imported|loaded)|CUDA_HOME environment variable is not set|Ninja is required to load C\+\+ extensions|Error building extension|Error compiling objects for extension|[Cc]ommand .*(?:ninja|nvcc|cl|gcc|g\+\+|clang\+\+).* returned non-zero|unsupported GNU version|nvcc (?:fatal|not found)|CUDA Setup failed|loaded runtime CuDNN library|cuDNN version incompatibility|MKL_THREADING_LAYER|OMP: Error #15|libiomp5.* already initialized|MKL FATAL ERROR|PTX was compiled with an unsupported toolchain|unsupported PTX version|fbgemm.*(?:requires|not supported)|found .* version .* but .* requires",
            source="torchvision/extension.py; torch/utils/cpp_extension.py; NumPy; bitsandbytes; Intel MKL, OpenMP",
            examples=(
                "RuntimeError: operator torchvision::nms does not exist",
                "RuntimeError: Couldn't load custom C++ ops. This can happen if your PyTorch and torchvision versions are incompatible, or if you had errors while compiling torchvision from source.",
                "RuntimeError: Numpy is not available",
                "RuntimeError: The detected CUDA version (12.4) mismatches the version that was used to compile PyTorch (11.8). Please make sure to use the same CUDA versions.",
                "OMP: Error #15: Initializing libiomp5md.dll, but found libiomp5md.dll already initialized.",
                "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
            ),
        ),
        Rule(
            pattern=r"NVIDIA driver on your system is too old|[Ff]ound no NVIDIA driver|no NVIDIA driver on your system|CUDA driver version is insufficient|cuda runtime error \((?:35|38|30|100|999)\)|forward compatibility was attempted|[Dd]river/library version mismatch|system not yet initialized|CUDA unknown error|No CUDA GPUs are available|No HIP GPUs are available|no (?:CUDA|ROCm|HIP)-capable device is detected|invalid device ordinal|hipErrorNoDevice|hipErrorInvalidDevice|Torch not compiled with (?:CUDA|ROCm|XPU)|Unexpected error from (?:cuda|hip)GetDeviceCount|CUDA initialization: |cudaErrorInsufficientDriver|CUDA-capable device\(s\) is/are busy or unavailable|all CUDA-capable devices are busy|couldn't communicate with the NVIDIA driver|PyTorch was not compiled with|not (?:linked|built|compiled) with (?:CUDA|MPS|XPU|ROCm)(?: support| enabled)?\b|device type cuda is not (?:supported|available)|CUDA is not available|No (?:XPU|GPU)s? (?:devices? )?(?:are|is) available|system has unsupported display driver|unsupported display driver / cuda driver combination|Unsupported device.*MPS|invalid CUDA ['\"]?device=|CUDA requested but not available",
            source="torch/cuda/__init__.py; c10/cuda/CUDAFunctions.cpp",
            examples=(
                "RuntimeError: The NVIDIA driver on your system is too old (found version 10010). Please update your GPU driver by downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx",
                "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx",
                "AssertionError: Torch not compiled with CUDA enabled",
                "RuntimeError: No HIP GPUs are available",
                "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 804: forward compatibility was attempted on non supported HW",
            ),
        ),
        Rule(
            of="type",
            pattern=r"(?:^|\.)(?:ImportError|ModuleNotFoundError)$",
            source="Python",
            weak=True,
            examples=(
                "Traceback (most recent call last):\n  File \"train.py\", line 6, in <module>\n    from torch._six import container_abcs\nImportError: cannot import name 'container_abcs' from 'torch._six' (/venv/lib/python3.8/site-packages/torch/_six.py)",
                "ModuleNotFoundError: No module named 'flash_attn_2_cuda'",
            ),
        ),
        Rule(
            pattern=r"module '?torch[\w.]*'? has no attribute|module '?(?:torchvision|torchaudio|torchtext)[\w.]*'? has no attribute|type object 'torch\.\w+' has no attribute|partially initialized module 'torch|name '_C' is not defined",
            types=r"AttributeError|NameError",
            source="Python, over a torch of another version",
            weak=True,
            examples=(
                "AttributeError: module 'torch' has no attribute 'compile'",
                "AttributeError: module 'torch.distributed' has no attribute 'init_device_mesh'",
            ),
        ),
    ),
)

LIBRARY_STATUS = Fault(
    name="library_status",
    family="environment",
    title="a math library reported a failure status",
    first_check="Look for an earlier assertion line or out-of-memory in the same log, and at the free memory; then run the operator alone with the same shapes.",
    avoid="Don't conclude that cuBLAS or cuDNN is broken: the status often reports what an earlier kernel did, or that memory is nearly gone.",
    also=("index_out_of_domain", "out_of_memory", "illegal_memory_access"),
    tell_apart="firstfault locate runs kernels one at a time; if another operator fails then, it was the cause.",
    on={
        "rocm": Advice(
            avoid="Don't conclude that rocBLAS or MIOpen is broken: the status often reports what an earlier kernel did, or that memory is nearly gone."
        ),
        "cpu": Advice(
            first_check="Run the operator alone with the same shapes and dtype, with oneDNN or MKL off (torch.backends.mkldnn.flags(enabled=False)).",
            avoid="Don't conclude that the library is broken before the operator fails alone: shapes of zero size and NaN are refused so too.",
        ),
    },
    late=3,
    rules=(
        Rule(
            pattern=r"CUBLAS_STATUS_\w+|CUDNN_STATUS_\w+|CUSPARSE_STATUS_\w+|CUSOLVER_STATUS_\w+|cusolver error|CUFFT_\w+|CURAND_STATUS_\w+|rocblas_status_\w+|HIPBLAS_STATUS_\w+|HIPFFT_\w+|hipfft\w* error|rocfft\w*_status|HIPSOLVER_STATUS\w+|HIPSPARSE_STATUS_\w+|rocsparse_status\w*|miopenStatus\w+|MIOPEN_STATUS\w*|MIOpen (?:Error|error)|MIOpen\(HIP\): Error|rocBLAS error|cuDNN (?:error|Frontend error)|cuFFT error|cufft error|cublas runtime error|cuSPARSE error|cuSOLVER error",
            source="ATen/cuda/Exceptions.h, CublasHandlePool.cpp, cudnn/Exceptions.h; ATen/hip, miopen",
            unless=r"gfx.*TensileLibrary|TensileLibrary.*gfx",
            examples=(
                "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
                "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc)`",
                "RuntimeError: cublas runtime error : the GPU program failed to execute at /pytorch/aten/src/THC/THCBlas.cu:258",
                "RuntimeError: miopenStatusUnknownError",
                "RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR",
            ),
        ),
        Rule(
            pattern=r"Unable to find a valid cuDNN algorithm|was unable to find an engine to execute this computation|[Nn]o valid execution plans|could not (?:create|execute|initialize) a(?:n)? (?:\w+ )?(?:primitive|engine|memory|descriptor)|oneDNN|(?:Intel )?MKL (?:ERROR|FFT error)|MKL DFTI|DNNL_\w+|mkldnn\w* .*(?:error|failed)|On entry to \w+ parameter number|LAPACK\w* .*(?:error|illegal)|Argument \d+ has illegal value",
            source="ATen/native/cudnn; oneDNN; MKL; LAPACK's xerbla",
            unless=r"OneDNN custom operations are on|oneDNN custom operations are on|rebuild TensorFlow",
            examples=(
                "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution",
                "RuntimeError: GET was unable to find an engine to execute this computation",
                "RuntimeError: could not create a primitive descriptor for a matmul primitive",
                "Intel MKL ERROR: Parameter 6 was incorrect on entry to DGELSD.",
            ),
        ),
    ),
)

ILLEGAL_MEMORY_ACCESS = Fault(
    name="illegal_memory_access",
    family="contract",
    title="a kernel touched memory that isn't its own",
    first_check="Get it back with synchronous launches (firstfault locate, or CUDA_LAUNCH_BLOCKING=1) and look at the indices that the named operator was given.",
    avoid="Don't conclude that the memory is broken or exhausted: an unchecked index or a custom kernel is far more often the cause.",
    also=("index_out_of_domain", "kernel_unavailable"),
    tell_apart="compute-sanitizer names the kernel on NVIDIA (with PYTORCH_NO_CUDA_MEMORY_CACHING=1, or the caching allocator hides it); firstfault compare tells whether it needs a custom kernel.",
    on={
        "rocm": Advice(
            first_check="Get it back with serialised kernels (firstfault locate, or AMD_SERIALIZE_KERNEL=3) and look at the indices that the named operator was given: ROCm builds abort where CUDA prints an assertion.",
            tell_apart="With AMD_LOG_LEVEL=3 the runtime names the last kernels; firstfault compare tells whether it needs a custom kernel or only this architecture.",
        ),
    },
    backends=("cuda", "rocm", "xpu"),
    late=2,
    rules=(
        Rule(
            pattern=r"illegal memory access|unspecified launch failure|misaligned address|illegal instruction was encountered|illegal address|(?:hip|cuda)ErrorIllegalAddress|(?:hip|cuda)ErrorLaunchFailure|cuda runtime error \((?:4|77|74|73|700|719|716)\)|Memory access fault by GPU|HSA_STATUS_ERROR_(?:MEMORY\w*|EXCEPTION)|[Pp]age not present or supervisor privilege|invalid program counter|Warp (?:Illegal|Out-of-range|Misaligned)\w* |Invalid __(?:global|shared|local)__ (?:read|write)|hardware stack error|UR_RESULT_ERROR_DEVICE_LOST|kIOGPUCommandBufferCallbackErrorPageFault|GPU core dump|an illegal barrier",
            source="c10/cuda/CUDAException.cpp; the ROCm runtime; compute-sanitizer",
            examples=(
                "RuntimeError: CUDA error: an illegal memory access was encountered",
                "RuntimeError: cuda runtime error (77) : an illegal memory access was encountered at /pytorch/aten/src/THC/THCCachingHostAllocator.cpp:265",
                "Memory access fault by GPU node-1 (Agent handle: 0x55d6c2a1e3f0) on address 0x7f2b4e400000. Reason: Page not present or supervisor privilege.",
                "RuntimeError: CUDA error: misaligned address",
                "RuntimeError: HIP error: unspecified launch failure",
            ),
        ),
    ),
)

CLASSES = (
    OUT_OF_MEMORY,
    HOST_MEMORY,
    KERNEL_UNAVAILABLE,
    ENVIRONMENT_BINARY,
    LIBRARY_STATUS,
    ILLEGAL_MEMORY_ACCESS,
)
