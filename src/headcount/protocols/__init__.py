"""The protocols, mostly one to a file, and the modules that they share."""
