"""Comparisons of two estimates: differences and ratios, for the crowds and for populations.

A crowd is the people who took part. A population is what they were drawn from.
"""
