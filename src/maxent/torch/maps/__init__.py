"""Sparse and softmax maps and their losses, with engines side by side: plain, compiled, triton."""
