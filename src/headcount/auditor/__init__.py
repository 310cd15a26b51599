"""Audits, which measure the privacy of Headcount's protocols and of any other mechanism."""
