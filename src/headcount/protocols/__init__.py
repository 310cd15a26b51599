"""The protocols, one file each, and the path that runs them."""
