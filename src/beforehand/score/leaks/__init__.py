"""Leaks: the detector, the report of a run, and what missed ones could gain."""
