"""The command line. It only calls the library."""
