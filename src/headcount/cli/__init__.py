"""The command line: it only calls the rest."""
