"""The one road from people's values to an estimate. `road.py` follows it."""
