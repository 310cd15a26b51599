"""Collect answers over a network: respondents, a shuffler and an analyzer."""
