"""What users ask for, compiled to Plans: backtests, the benchmark, the scoring of a file."""
