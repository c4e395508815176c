"""Trials: one plan, one source version, one variant, one fresh process, one outcome."""
