"""Compares the errors and costs of protocols before any budget is spent."""
