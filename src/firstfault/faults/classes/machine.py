"""Memory, devices, libraries, builds: what the machine gives or refuses."""

from firstfault.faults.fault import Fault, Rule

OUT_OF_MEMORY = Fault(
    name="out_of_memory",
    family="resource",
    title="the device's memory is exhausted",
    first_check="Compare this batch's sizes with the others', and memory at this step with the first steps.",
    avoid="Don't halve the batch size at once: a graph that is held, or one long sample, comes back later.",
    also=("graph_freed", "host_memory"),
    tell_apart="Memory that grows step by step is a held graph; one step that is larger than all others is a long sample.",
    backends=("cuda", "rocm", "mps", "xpu"),
    rules=(
        Rule(pattern=r"(?:CUDA|HIP|XPU|MPS backend|NPU|device) out of memory|OutOfMemoryError|CUDA error: out of memory|cuda runtime error \(2\)|hipErrorOutOfMemory|HIP error: out of memory|UR_RESULT_ERROR_OUT_OF_(?:DEVICE|HOST)_MEMORY|out of memory\. Tried to allocate", source="c10/cuda/CUDACachingAllocator.cpp"),
        Rule(pattern=r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|Unable to find a valid cuDNN algorithm to run convolution", source="ATen/cuda"),
    ),
)

HOST_MEMORY = Fault(
    name="host_memory",
    family="resource",
    title="the host's memory or shared memory is exhausted",
    first_check="Look at the memory of all processes and at the size of /dev/shm while the run goes on.",
    avoid="Don't take it for the device's memory, and don't take a killed process for a bug of its own.",
    also=("dataloader_worker", "out_of_memory"),
    tell_apart="The kernel's log names the process that it killed; a bus error is shared memory.",
    rules=(
        Rule(pattern=r"killed by signal: (?:Bus error|Killed)|out of shared memory|Insufficient shared memory|unable to (?:write to|open|mmap) (?:file|shared memory)|No space left on device[^\n]*(?:shm|torch_)", source="torch/utils/data/_utils/signal_handling.py, torch/csrc/../MapAllocator"),
        Rule(pattern=r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|you tried to allocate \d+ bytes|^(?:\w+\.)*MemoryError\b|Unable to allocate .* for an array|Cannot allocate memory|std::bad_alloc|oom-kill|Out of memory: Killed process|exitcode: -9|Too many open files|received 0 items of ancdata", source="c10/core/CPUAllocator.cpp"),
    ),
)

KERNEL_UNAVAILABLE = Fault(
    name="kernel_unavailable",
    family="environment",
    title="there is no kernel for this operator, dtype or device",
    first_check="Compare the device's architecture with torch.cuda.get_arch_list(), and the dtype with what the operator supports there.",
    avoid="Don't reinstall everything: one of build, extension, dtype or back end doesn't have this kernel.",
    also=("environment_binary", "dtype_mismatch"),
    tell_apart="'no kernel image' is the build; 'not implemented for' is the dtype; 'Could not run' is the back end.",
    rules=(
        Rule(pattern=r"no kernel image is available|hipErrorNoBinaryForGpu|invalid device function|HIP error: (?:invalid device function|no kernel image)|is not compatible with the current PyTorch installation|device kernel image is invalid|Unable to find code object for all current devices", source="c10/cuda/CUDAException.cpp"),
        Rule(pattern=r"\"?\w+\"? not implemented for '\w+'", source="ATen/Dispatch.h"),
        Rule(pattern=r"Could not run '[\w:.]+' with arguments from the '\w+' backend|is not currently (?:implemented|supported) (?:for|on) the \w+ (?:device|backend)|not implemented for the MPS device|doesn't (?:support|have) (?:float64|BFloat16|complex)|Cannot convert a MPS Tensor to float64|does not support (?:bfloat16|float64|double)|only supported on (?:CUDA|GPU)|No available kernel|is not (?:yet )?supported on (?:MPS|XPU|HPU)", source="ATen/core/dispatch, ATen/mps"),
        Rule(pattern=r"Torch not compiled with CUDA enabled|torchvision::nms' with arguments|FlashAttention only supports|no kernel found|Error: no kernel", source="torch/cuda/__init__.py"),
    ),
)

ENVIRONMENT_BINARY = Fault(
    name="environment_binary",
    family="environment",
    title="binaries of the environment do not fit together",
    first_check="Print the versions of torch, its CUDA or ROCm, the driver and the extension that is named; one doesn't match.",
    avoid="Don't change the training code, and don't upgrade several packages at once.",
    also=("kernel_unavailable",),
    tell_apart="firstfault doctor shows versions and devices, and whether a small computation works.",
    rules=(
        Rule(pattern=r"undefined symbol|cannot open shared object file|DLL load failed|symbol lookup error|version `\w+_[\d.]+' not found|Library not loaded|wrong ELF class|image not found", source="the dynamic linker"),
        Rule(pattern=r"operator torchvision::nms does not exist|Couldn't load custom C\+\+ ops|compiled (?:with|using) (?:a different|NumPy 1|an older)|A module that was compiled using NumPy 1|Numpy is not available|detected (?:CUDA|that) .*mismatch|The detected CUDA version .* mismatches", source="torchvision, torch/utils/cpp_extension.py"),
        Rule(pattern=r"The NVIDIA driver on your system is too old|no NVIDIA driver on your system|CUDA driver version is insufficient|forward compatibility was attempted|driver/library version mismatch|system not yet initialized|CUDA unknown error|No CUDA GPUs are available|No HIP GPUs are available|no CUDA-capable device is detected|invalid device ordinal|hipErrorNoDevice", source="torch/cuda/__init__.py"),
        Rule(pattern=r"^(?:ImportError|ModuleNotFoundError): ", source="Python"),
        Rule(pattern=r"No module named ['\"][\w.]+['\"]", source="Python"),
    ),
)

LIBRARY_STATUS = Fault(
    name="library_status",
    family="environment",
    title="a math library reported a failure status",
    first_check="Look for an earlier assertion line or out-of-memory in the same log; then run the operator alone.",
    avoid="Don't conclude that cuBLAS or cuDNN is broken: the status often reports what an earlier kernel did.",
    also=("index_out_of_domain", "out_of_memory", "illegal_memory_access"),
    tell_apart="firstfault locate runs kernels one at a time; if another operator fails then, it was the cause.",
    backends=("cuda", "rocm"),
    late=True,
    rules=(
        Rule(pattern=r"CUBLAS_STATUS_(?!ALLOC_FAILED)\w+|CUDNN_STATUS_(?!ALLOC_FAILED)\w+|CUSPARSE_STATUS_\w+|CUSOLVER_STATUS_\w+|CUFFT_\w+|rocblas_status_\w+|HIPBLAS_STATUS_\w+|miopenStatus\w+|MIOPEN_STATUS|cuDNN error|cufft error|oneDNN|could not create a primitive", source="ATen/cuda, ATen/hip"),
    ),
)

ILLEGAL_MEMORY_ACCESS = Fault(
    name="illegal_memory_access",
    family="contract",
    title="a kernel touched memory that isn't its own",
    first_check="Get it back with synchronous launches (firstfault locate) and look at the indices that the named operator was given.",
    avoid="Don't conclude that the memory is broken: an unchecked index or a custom kernel is far more often the cause.",
    also=("index_out_of_domain", "kernel_unavailable"),
    tell_apart="With PYTORCH_NO_CUDA_MEMORY_CACHING=1, compute-sanitizer names the kernel on NVIDIA.",
    backends=("cuda", "rocm"),
    late=True,
    rules=(
        Rule(pattern=r"illegal memory access|unspecified launch failure|misaligned address|illegal instruction was encountered|hipErrorIllegalAddress|Memory access fault by GPU|HSA_STATUS_ERROR_MEMORY|page not present or supervisor privilege|Segmentation fault(?! *\(core)", source="c10/cuda/CUDAException.cpp, ROCm runtime", never_with=r"DataLoader worker"),
    ),
)

CLASSES = (OUT_OF_MEMORY, HOST_MEMORY, KERNEL_UNAVAILABLE, ENVIRONMENT_BINARY, LIBRARY_STATUS, ILLEGAL_MEMORY_ACCESS)
