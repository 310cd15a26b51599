"""The audit lab: privacy measured instead of believed, of our own protocols and of anybody's."""
