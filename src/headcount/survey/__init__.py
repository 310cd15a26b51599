"""Surveys: several questions to the same people, with one budget for all answers of a person."""
