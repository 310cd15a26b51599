"""Local trust: everyone randomizes their own message, and nobody needs to be trusted."""
