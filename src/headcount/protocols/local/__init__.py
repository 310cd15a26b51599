"""Local trust: everyone randomizes, nobody is trusted."""
