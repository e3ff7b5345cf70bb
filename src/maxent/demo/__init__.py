"""Demonstrations on data that the package brings along.

``species`` takes a virtual species from files to map and report (extra ``geo``); ``learning`` fits
densities and a sparse classifier (extra ``plot``).
"""
