"""Every tool of the documents, one decorated function each, over a View."""
