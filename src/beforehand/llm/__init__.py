"""Models: by name, through the traffic limits and the journal, with their training cutoffs."""
