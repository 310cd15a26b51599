"""The questions that can be asked, a file for each or for a close pair."""
