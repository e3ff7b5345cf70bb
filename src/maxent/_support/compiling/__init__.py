"""Compiled kernels: module-level functions of arrays and scalars, loaded at first use."""
