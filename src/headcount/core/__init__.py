"""The basic types: questions, budgets, crowds, messages and answers.

This package imports no other package of Headcount, except that it loads `plot` when a figure is
asked for.
"""
