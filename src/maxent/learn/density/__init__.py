"""Densities by scikit-learn's manners."""
