"""Solvers of the papers, kept to be compared with: nobody needs to choose them."""
