"""The speed of Headcount and its peers: `python -m benchmarks`, from the root of the repository.

Seconds depend on the machine and on its other work, so only ratios count. Times are measured in
one process and on one thread, and all sides take turns. A slow result is not a failure.
"""
