"""The entry point of `python -m headcount`."""

from headcount.cli.main import main

main()
