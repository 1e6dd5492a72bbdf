"""Agents: each reads its inputs, uses its tools, and writes one output and one log to the bus."""
