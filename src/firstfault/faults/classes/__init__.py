"""The classes, a file for each kind of cause. A class is a :class:`firstfault.faults.fault.Fault`."""
