"""The orchestrator: a question becomes a plan of tasks, agents carry them out, and one answer with
citations comes of it."""
