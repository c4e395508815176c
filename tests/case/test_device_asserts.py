"""Assertion lines of device code, in the forms that CUDA, HIP, SYCL and Triton print."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.case.device_asserts import MAX_KEPT, parse_device_asserts

CUDA = (
    "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], "
    "thread: [7,0,0] Assertion `t >= 0 && t < n_classes` failed."
)


def test_cuda_line_gives_all_its_parts() -> None:
    """File, line, kernel, block, thread and condition are read off the driver's line."""
    (found,) = parse_device_asserts(CUDA)
    assert found.text == CUDA
    assert found.file == "../aten/src/ATen/native/cuda/Loss.cu"
    assert found.line == 250
    assert found.kernel == "nll_loss_forward_reduce_cuda_kernel_2d"
    assert (found.block, found.thread) == ((0, 0, 0), (7, 0, 0))
    assert found.condition == "t >= 0 && t < n_classes"
    assert found.count == 1


def test_windows_line_has_a_drive_and_no_function() -> None:
    """Windows prints a drive letter and leaves the function out."""
    (found,) = parse_device_asserts(
        "C:\\actions\\pytorch\\aten\\src\\ATen\\native\\cuda\\IndexKernel.cu:97: block: [3,0,0], thread: [64,0,0] "
        'Assertion `index >= -sizes[i] && index < sizes[i] && "index out of bounds"` failed.'
    )
    assert found.file == "C:\\actions\\pytorch\\aten\\src\\ATen\\native\\cuda\\IndexKernel.cu"
    assert found.kernel is None
    assert found.thread == (64, 0, 0)


def test_old_builds_print_a_whole_signature() -> None:
    """Only the function's name is kept of a signature with its template arguments."""
    (found,) = parse_device_asserts(
        "/pytorch/aten/src/THCUNN/SpatialClassNLLCriterion.cu:104: void cunn_Spatial_updateOutput_kernel(T *, T *, long *) "
        "[with T = float, AccumT = float]: block: [1,0,0], thread: [33,0,0] Assertion `t >= 0 && t < n_classes` failed."
    )
    assert found.kernel == "cunn_Spatial_updateOutput_kernel"
    assert found.condition == "t >= 0 && t < n_classes"


@pytest.mark.parametrize(
    "line",
    [
        "/src/pytorch/aten/src/ATen/native/hip/IndexKernel.hip:95: operator(): Device-side assertion "
        '`index >= -sizes[i] && index < sizes[i] && "index out of bounds"\' failed.',
        "/src/pytorch/aten/src/ATen/native/hip/Embedding.hip:52: embedding_kernel: Device-side assertion `idx < n' failed",
    ],
)
def test_hip_line_has_neither_block_nor_thread(line: str) -> None:
    """HIP's line opens with a back-quote, closes with an apostrophe and names no thread."""
    (found,) = parse_device_asserts(line)
    assert found.block is None
    assert found.thread is None
    assert found.condition is not None
    assert not found.condition.endswith("'")
    assert found.text == line


def test_triton_line_names_the_generated_module() -> None:
    """Inductor's kernels have the generated file and no function."""
    (found,) = parse_device_asserts(
        "/tmp/torchinductor_me/ab/cabc.py:31: unknown: block: [12,0,0], thread: [96,0,0] Assertion "
        "`index out of bounds: 0 <= tmp9 < 40` failed."
    )
    assert found.file == "/tmp/torchinductor_me/ab/cabc.py"
    assert found.kernel is None
    assert found.condition == "index out of bounds: 0 <= tmp9 < 40"


def test_sycl_line_has_global_and_local_ids() -> None:
    """XPU prints global and local ids."""
    (found,) = parse_device_asserts(
        "/b/torch-xpu-ops/src/ATen/native/xpu/sycl/Indexing.cpp:60: auto IndexKernel::operator()(sycl::nd_item<1>)::"
        "(anonymous class)::operator()(int) const: global id: [512,0,0], local id: [0,0,0] Assertion `idx < size` failed."
    )
    assert found.block == (512, 0, 0)
    assert found.condition == "idx < size"


def test_printf_form_is_read_as_well() -> None:
    """The line that a kernel prints itself, before the driver's, is an assertion of the same condition."""
    (found,) = parse_device_asserts(
        "[CUDA_KERNEL_ASSERT] aten/src/ATen/native/cuda/Repeat.cu:20: compute: block: [0,0,0], thread: [1,0,0]: "
        "Assertion failed: `result_size == cumsum[n - 1]`: sizes differ"
    )
    assert found.condition == "result_size == cumsum[n - 1]"


@pytest.mark.parametrize(
    ("condition", "line_end"),
    [
        ("", "."),
        ("probability tensor contains either `inf`, `nan` or element < 0", "."),
        ("input_val >= zero && input_val <= one", ""),
    ],
)
def test_condition_may_be_empty_or_hold_back_quotes(condition: str, line_end: str) -> None:
    """A run-time message may stand where the condition's source text stands otherwise."""
    line = f"a/B.cu:1: f: block: [0,0,0], thread: [0,0,0] Assertion `{condition}` failed{line_end}"
    (found,) = parse_device_asserts(line)
    assert found.condition == condition
    assert found.text == line


def test_first_of_each_kind_is_kept_with_the_count() -> None:
    """Thousands of threads refuse the same thing; another condition is another kind."""
    other = CUDA.replace("t >= 0 && t < n_classes", "idx < size")
    found = parse_device_asserts("\n".join([CUDA, CUDA.replace("[7,0,0]", "[8,0,0]"), "step 3", other, CUDA]))
    assert [(each.condition, each.count) for each in found] == [
        ("t >= 0 && t < n_classes", 3),
        ("idx < size", 1),
    ]
    assert found[0].thread == (7, 0, 0)


def test_lines_glued_together_are_told_apart() -> None:
    """Threads that print at the same time leave two assertions on a line."""
    assert [each.count for each in parse_device_asserts(CUDA + CUDA)] == [2]


def test_prefix_of_a_rank_is_left_out() -> None:
    """What a launcher puts before the line is no part of the assertion."""
    (found,) = parse_device_asserts(f"[rank1]: {CUDA}")
    assert found.text == CUDA


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AssertionError: n_classes",
        "assert t >= 0",
        "RuntimeError: CUDA error: device-side assert triggered",
    ],
)
def test_host_assertions_are_none(text: str) -> None:
    """Python's own assertions and the host's status are not device assertions."""
    assert parse_device_asserts(text) == ()


def test_kinds_are_bounded() -> None:
    """A flood of different conditions does not fill the case."""
    flood = "\n".join(CUDA.replace("n_classes", f"n_{number}") for number in range(MAX_KEPT * 3))
    assert len(parse_device_asserts(flood)) == MAX_KEPT


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    """No text makes the parser fail."""
    parse_device_asserts(text)


@given(st.lists(st.sampled_from([CUDA, "noise", CUDA.replace("Loss", "Other")]), max_size=40))
def test_counts_add_up_to_the_lines(lines: list[str]) -> None:
    """The counts over all kinds are the number of assertion lines."""
    found = parse_device_asserts("\n".join(lines))
    assert sum(each.count for each in found) == sum(line != "noise" for line in lines)
