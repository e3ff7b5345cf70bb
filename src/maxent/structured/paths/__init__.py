"""Paths of acyclic graphs: lattices and finite automata."""
