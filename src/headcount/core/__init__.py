"""The basic types: questions, budgets, crowds, messages and answers.

This package imports no other package of Headcount.
"""
