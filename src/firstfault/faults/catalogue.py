"""All fault classes by name, in the order in which they are asked: specific ones before general ones."""

from __future__ import annotations

from collections.abc import Mapping

from firstfault.faults.classes import autograd, data, machine, programs, tensors, values
from firstfault.faults.fault import Advice, Family, Fault, Rule

OTHER = Fault(
    name="other",
    family="unknown",
    title="not a failure that the catalogue knows",
    first_check="Keep the whole output from the first error on; run the script under firstfault run to get the batch and the frames.",
    avoid="Don't take the last printed line for the cause, and don't change several things at once: rerun the failing batch alone first.",
    tell_apart="The complete traceback, standard error, the versions, and whether the same batch fails again would tell.",
)

FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        *autograd.CLASSES,
        *programs.CLASSES,
        *data.CLASSES,
        *values.CLASSES,
        *tensors.CLASSES,
        *machine.CLASSES,
        OTHER,
    )
}


def family_of(name: str) -> Family:
    """The family of a class: data, contract, numeric, resource, environment, process or unknown."""
    return FAULTS[name].family


__all__ = ["FAULTS", "OTHER", "Advice", "Family", "Fault", "Rule", "family_of"]
