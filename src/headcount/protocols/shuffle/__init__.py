"""Shuffle trust: everyone adds a little noise, and a shuffler hides who sent which message."""
