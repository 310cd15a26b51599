"""Headcount's speed beside its peers': `python -m benchmarks`, from the root of the repository.

Seconds depend on the machine and on what else it does, so all that counts are ratios, measured in
one process, on one thread, all sides in turn. Nothing here fails for being slow.
"""
