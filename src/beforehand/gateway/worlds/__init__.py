"""What a View reads from: the recorded world, or the live services."""
