"""Shuffle trust: a shuffler hides who sent which message, and people or the shuffler add noise."""
