"""Labels of sequences."""
