"""What was done, read back: verify, compare, export."""
