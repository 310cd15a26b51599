"""A fuzzer of the command line: it makes up command lines and damaged files, and judges from
outside what happens.

`zoo` makes files, `lines` makes command lines, `runs` runs them, `judge` says what is wrong, and
`faults` are disks and pipes that fail. `python -m fuzzing` in this folder's parent explores.
"""
