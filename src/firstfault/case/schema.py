"""The facts of a case: what happened, written once by the recorder and never changed afterwards.

Every struct is frozen. A field that could not be recorded is ``None``: 'not recorded' is never taken for 'no'.
Sizes are counts of elements unless a name says bytes; times are seconds since the epoch; numbers of loaders,
passes, batches and positions start at 0. ``docs/case-format.md`` is written from this module.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SCHEMA_VERSION = 1

Phase = Literal["data", "forward", "backward", "optimizer", "validation", "setup", "other"]
Owner = Literal["user", "torch", "library", "python", "firstfault"]


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Base of every record in a case: immutable, named fields only, unknown fields ignored when read."""


class Frame(Fact, frozen=True, kw_only=True):
    """One frame of a traceback, outermost first in lists. ``owner`` says whose code it is."""

    file: str
    line: int
    function: str
    code: str | None = None
    owner: Owner = "user"
    end_line: int | None = None


class ExceptionInfo(Fact, frozen=True, kw_only=True):
    """An exception as text. ``type`` is the qualified name, ``'IndexError'`` or ``'torch.OutOfMemoryError'``.

    ``bases`` are the names of its base classes, nearest first, so that a subclass is still recognised.
    ``caused_by`` holds the chain of ``__cause__`` / ``__context__``, nearest first.
    """

    type: str
    message: str
    bases: tuple[str, ...] = ()
    caused_by: tuple[ExceptionInfo, ...] = ()


class DeviceAssert(Fact, frozen=True, kw_only=True):
    """One device-side assertion line off standard error (the first of its kind; ``count`` says how many came)."""

    text: str
    file: str | None = None
    line: int | None = None
    kernel: str | None = None
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    condition: str | None = None
    count: int = 1


class Consequence(Fact, frozen=True, kw_only=True):
    """A later failure that follows from the first one and must not be taken for the cause."""

    exception: ExceptionInfo
    seen: Frame | None = None
    note: str | None = None


class WorkerFailure(Fact, frozen=True, kw_only=True):
    """What a DataLoader worker, or the main process while it fetched, was doing when it failed.

    ``stage`` is ``'getitem'`` while one sample was read, ``'collate'`` while samples were put together, ``'init'``
    in worker_init_fn or while the data set's iterator was made. ``sample`` is the data-set index, ``position`` its
    place within the batch; both are None at the stage 'collate'. ``worker`` is None in the main process.
    """

    stage: Literal["getitem", "collate", "init"]
    worker: int | None = None
    sample: Any = None
    position: int | None = None
    frames: tuple[Frame, ...] = ()


class Failure(Fact, frozen=True, kw_only=True):
    """The first failure of the run.

    ``seen`` is where it was SEEN: the innermost frame of the user's own code. ``modules`` are the ``nn.Module``s in
    progress, outermost first, as ``'path (Class)'``. ``kind`` tells how it came to light.
    """

    kind: Literal["raised", "nonfinite", "stalled", "killed"]
    phase: Phase
    exception: ExceptionInfo | None = None
    seen: Frame | None = None
    frames: tuple[Frame, ...] = ()
    modules: tuple[str, ...] = ()
    device_asserts: tuple[DeviceAssert, ...] = ()
    consequences: tuple[Consequence, ...] = ()
    swallowed: bool = False
    fetch: WorkerFailure | None = None
    stderr_tail: str | None = None
    grad_enabled: bool | None = None


class Unstepped(Fact, frozen=True, kw_only=True):
    """A batch that was handed out and after which no optimizer step was completed, though others had one."""

    loader: int
    pass_: int = msgspec.field(name="pass")
    batch: int
    indices: tuple[Any, ...] | None = None


class Progress(Fact, frozen=True, kw_only=True):
    """How far the run had come. ``last_completed_step`` counts completed optimizer steps (of the busiest optimizer)."""

    loader: int | None = None
    pass_: int | None = msgspec.field(name="pass", default=None)
    batch: int | None = None
    last_completed_step: int = 0
    steps_by_optimizer: tuple[int, ...] = ()
    handed_out: int = 0
    unstepped: tuple[Unstepped, ...] = ()


class Leaf(Fact, frozen=True, kw_only=True):
    """One tensor of a batch. ``path`` is how the script reaches it: ``"[0]"``, ``"['mask']"``, ``".boxes[2]"``."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    device: str
    stride: tuple[int, ...] | None = None
    digest: str | None = None
    layout: str = "strided"


class Batch(Fact, frozen=True, kw_only=True):
    """The batch in progress. ``indices`` are data-set indices in the order in which they were fetched.

    ``expected_size`` is the loader's batch size, where it has one. ``digest`` is the SHA-256 over structure, dtypes,
    shapes and bytes at the moment of the failure; None when the batch never came to be. ``structure`` describes
    containers with leaves replaced by their number in ``leaves``. ``kept`` tells whether ``private/`` holds values.
    """

    indices: tuple[Any, ...] | None = None
    size: int | None = None
    expected_size: int | None = None
    leaves: tuple[Leaf, ...] = ()
    structure: Any = None
    digest: str | None = None
    kept: bool = False
    worker: int | None = None


class Loader(Fact, frozen=True, kw_only=True):
    """A DataLoader, numbered in the order in which loaders were first iterated."""

    loader: int
    name: str | None = None
    kind: str = "torch.utils.data.DataLoader"
    dataset: str | None = None
    length: int | None = None
    batches: int | None = None
    batch_size: int | None = None
    workers: int = 0
    start_method: str | None = None
    sampler: str | None = None
    batch_sampler: str | None = None
    drop_last: bool | None = None
    iterable: bool = False
    shuffled: bool | None = None
    passes: int = 0
    made_at: Frame | None = None
    parts: tuple[tuple[str, int], ...] = ()


class Device(Fact, frozen=True, kw_only=True):
    """One compute device that torch sees. ``memory_bytes`` is its total memory."""

    kind: str
    index: int | None = None
    name: str | None = None
    capability: str | None = None
    memory_bytes: int | None = None


class Environment(Fact, frozen=True, kw_only=True):
    """Versions and switches. ``variables`` are allow-listed environment variables only; ``flags`` torch's switches."""

    python: str
    platform: str
    torch: str | None = None
    backend: str = "cpu"
    cuda: str | None = None
    hip: str | None = None
    cudnn: str | None = None
    arch_list: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()
    threads: int | None = None
    packages: dict[str, str] = {}
    flags: dict[str, Any] = {}
    variables: dict[str, str] = {}


class SourceFile(Fact, frozen=True, kw_only=True):
    """One of the user's own source files as it was at the run; ``digest`` names its copy under ``source/``."""

    path: str
    digest: str
    bytes: int


class Source(Fact, frozen=True, kw_only=True):
    """What was run. ``module`` is set for ``-m``. ``root`` is the folder that ``files`` paths are relative to."""

    script: str | None = None
    module: str | None = None
    argv: tuple[str, ...] = ()
    cwd: str = ""
    root: str = ""
    commit: str | None = None
    modified: bool | None = None
    files: tuple[SourceFile, ...] = ()
    launcher: tuple[str, ...] = ()


class Rank(Fact, frozen=True, kw_only=True):
    """One process of a distributed run."""

    rank: int
    world_size: int | None = None
    local_rank: int | None = None


class Memory(Fact, frozen=True, kw_only=True):
    """Memory figures, bytes, as far as they could be had without touching a device."""

    rss: int | None = None
    peak_rss: int | None = None
    available: int | None = None
    device: dict[str, dict[str, int]] = {}
    history: tuple[tuple[int, int], ...] = ()


class Case(Fact, frozen=True, kw_only=True):
    """Everything that the recorder wrote down about one failing run."""

    schema_version: int = SCHEMA_VERSION
    firstfault: str
    id: str
    created: float
    failure: Failure
    progress: Progress
    batch: Batch | None = None
    loaders: tuple[Loader, ...] = ()
    environment: Environment
    source: Source
    rank: Rank | None = None
    memory: Memory | None = None
    rng: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
