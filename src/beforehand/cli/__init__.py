"""The command line: one small file per group, loaded when its command is called."""
