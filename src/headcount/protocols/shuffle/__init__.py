"""Shuffle trust: everyone adds a little noise, the shuffler hides who said what."""
