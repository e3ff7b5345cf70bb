"""The study: its region, its background, its variables."""
