"""Figures, and results as files."""
