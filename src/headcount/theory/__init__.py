"""Proven lower bounds and rates for a task, a budget and a crowd."""

from headcount.theory.bound import Bound
from headcount.theory.entries import bounds
from headcount.theory.survey import survey_worth

__all__ = ["Bound", "bounds", "survey_worth"]
