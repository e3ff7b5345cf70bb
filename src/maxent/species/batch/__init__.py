"""Many species and whole folders: each appears complete or not at all."""
