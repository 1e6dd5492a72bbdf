"""The journal: runs, tasks and paid calls."""
