"""Audits: they measure the privacy of our own protocols and of any other mechanism."""
