"""Operators: the trace of a trial, where each element came from, what each operator demands of its arguments."""
