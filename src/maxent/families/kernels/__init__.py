"""Compiled loops of trees and monomials."""
