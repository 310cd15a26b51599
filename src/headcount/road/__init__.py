"""The steps from people's values to an estimate. `road.py` runs them in order."""
