"""Shuffle trust: everyone adds a little noise, and the shuffler hides who sent what."""
