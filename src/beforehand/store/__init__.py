"""Files on disk: atomic writes, the archive of the recorded world, the runs."""
