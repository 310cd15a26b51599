"""Random bits and exact draws. All randomness of the library comes from this package."""
