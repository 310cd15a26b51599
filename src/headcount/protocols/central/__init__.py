"""Central trust: the curator sees the values and adds the noise."""
