"""Linear models with a Fenchel-Young loss."""
