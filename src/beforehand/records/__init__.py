"""Frozen, typed values: the wire forms of every document, and the world's own records."""
