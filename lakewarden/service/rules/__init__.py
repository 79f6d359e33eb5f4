"""Judgements without I/O: what may start, what is permitted, how a run has ended."""
