"""What a scored run tells people."""
