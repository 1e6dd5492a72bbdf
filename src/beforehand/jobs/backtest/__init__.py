"""Markets walked through time."""
