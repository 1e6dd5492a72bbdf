"""Forecasts that were made elsewhere, in files: our own kinds, and those of other benchmarks."""
