"""What a trial does: which batches the script's DataLoaders hand out, or which small program is run.

A plan is data alone. It is written as ``plan.json`` into the trial's folder, so a trial is one folder and one command
(``python -m firstfault trial DIR``) and can be run by anything, anywhere.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from firstfault.case.schema import Fact


class Feed(Fact, frozen=True, kw_only=True):
    """What one pass of one loader hands out.

    ``batches`` are lists of data-set indices, fetched through the user's own data set, transforms and collate_fn.
    ``numbers`` are the batch numbers that they had in the recorded run (for their RNG state), None for new ones.
    """

    loader: int
    pass_: int = msgspec.field(name="pass")
    batches: tuple[tuple[Any, ...], ...]
    numbers: tuple[int | None, ...] = ()


class Variant(Fact, frozen=True, kw_only=True):
    """One change against the recorded configuration.

    ``name`` is shown; ``settings`` are understood by :mod:`firstfault.trial.variant`; ``environment`` is set for the
    trial's process before torch starts (a trial that needs it always gets a new interpreter).
    """

    name: str
    settings: dict[str, Any] = {}
    environment: dict[str, str] = {}


class ScriptPlan(Fact, frozen=True, kw_only=True, tag="script"):
    """Run the user's script with fed loaders.

    ``until_batch`` is (loader, pass, batch): without feeds, everything runs up to that batch and it is the one watched.
    ``others`` says what loaders and passes without a feed hand out: nothing, their first batch, or everything as it
    comes. ``until`` stops the run: when the last fed batch is ``'through'``, or only at the script's ``'end'``.
    ``batch`` feeds by sample ids through the data set or the kept values. ``restore_rng`` puts the RNG states back at
    the border of each fed batch. ``workers`` fetches as an emulated worker inside the main process or in real ones.
    ``instruments`` are ``'module:function'`` names of context managers entered around the script; each gets the
    trial's folder and the plan. ``source`` is the folder of the recorded source, None for today's.
    """

    case: str
    feeds: tuple[Feed, ...] = ()
    until_batch: tuple[int, int, int] | None = None
    others: Literal["nothing", "first", "everything"] = "nothing"
    until: Literal["through", "end"] = "through"
    batch: Literal["ids", "values"] = "ids"
    restore_rng: bool = True
    workers: Literal["emulated", "real"] = "emulated"
    instruments: tuple[str, ...] = ()
    variant: Variant | None = None
    source: str | None = None
    seconds: float = 300.0
    memory_bytes: int | None = None
    new_interpreter: bool = False
    repeat: int = 0


class SourcePlan(Fact, frozen=True, kw_only=True, tag="source"):
    """Run a small stand-alone program: a candidate of the reducer, or ``repro.py`` itself.

    ``text`` is the program, executed as ``__main__``. ``checks_itself`` programs exit 1 while the failure is there, 0
    when it is gone, 2 for anything else; others simply raise what they raise.
    """

    text: str
    checks_itself: bool = False
    instruments: tuple[str, ...] = ()
    variant: Variant | None = None
    seconds: float = 60.0
    memory_bytes: int | None = None
    new_interpreter: bool = False
    repeat: int = 0


Plan = ScriptPlan | SourcePlan
