"""From files to people's values."""
