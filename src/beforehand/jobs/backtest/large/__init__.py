"""Large runs: the walk of pure functions, and the columns that it keeps."""
