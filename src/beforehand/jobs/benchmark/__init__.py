"""The benchmark: events in, predictions, verdicts out."""
