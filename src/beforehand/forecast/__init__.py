"""Forecasters. A baseline is one function from a Panel to probabilities, listed in `baselines`."""
