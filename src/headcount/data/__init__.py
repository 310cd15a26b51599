"""Reads people's values from tables of any kind, and estimates answers from them."""
