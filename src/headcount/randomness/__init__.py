"""Random bits and exact draws: the only room where chance is made."""
