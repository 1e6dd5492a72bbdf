"""Running untrusted Python: one interface, one policy, several engines."""
