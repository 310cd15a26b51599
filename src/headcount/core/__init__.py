"""Nouns: the question, the budget, the crowd, messages, the answer. Imports no other room."""
