"""Models whose features are grown."""
