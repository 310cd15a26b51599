"""A fuzzer of the command line. It makes command lines and damaged files, and judges the results
from outside.

`zoo` makes files, `lines` makes command lines, `runs` runs them, `judge` says what is wrong, and
`faults` makes disks and pipes fail. `python -m fuzzing` in the parent folder explores.
"""
