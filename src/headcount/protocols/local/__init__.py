"""Local trust: everyone randomizes, and nobody is trusted."""
