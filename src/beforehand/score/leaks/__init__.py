"""Leaks: the predicate checked again, flagged texts, what a leak could be worth."""
