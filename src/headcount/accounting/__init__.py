"""What is promised: laws, divergences, curves, composition, calibration."""
