"""The catalogue of faults: class, evidence, first check, conclusion to avoid, per backend."""
