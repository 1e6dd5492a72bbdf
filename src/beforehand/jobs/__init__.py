"""Compilers: each kind of request becomes a Plan of Steps, and brings the actions."""
