"""Trees: labels of their nodes, and the trees of a graph."""
