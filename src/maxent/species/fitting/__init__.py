"""One species fitted: its settings, its model, and everything that is known of it."""
