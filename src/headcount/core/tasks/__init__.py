"""The questions that can be asked. Each has its own file, or shares one with a similar question."""
