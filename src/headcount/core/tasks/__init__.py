"""The questions that can be asked. Similar questions share a file."""
