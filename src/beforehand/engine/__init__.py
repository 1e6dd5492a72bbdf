"""Plans and what runs them. The engine knows nothing of markets."""
