"""Privacy accounting: laws, divergences, privacy curves, composition and calibration."""
