"""Engines beside numpy, a package for each; loaded only when one is asked for."""
