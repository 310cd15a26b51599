"""Compares what each protocol would cost, before any budget is spent."""
