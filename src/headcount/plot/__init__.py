"""Draws figures, and saves results as files."""
