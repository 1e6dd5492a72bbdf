"""Worlds: simulated ones with known truth, and importers of real data. They yield records."""
