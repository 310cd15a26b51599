"""The nouns: question, budget, crowd, messages and answer. This room imports no other room."""
