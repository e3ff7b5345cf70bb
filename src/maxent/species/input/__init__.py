"""Files of users: records, layers, and how far a file may reach."""
