"""Processes that charge one ledger until they are killed: a program of test_ledger_processes.py.

    python ledger_storm.py storm PLACE RELEASED PROCESSES KILLS SEED
    python ledger_storm.py crash PLACE STATEMENT before|after|never

`storm`: children charge datasets `many`, `few` and `composed` at random. After each charge has
returned, and never before, a line is appended to RELEASED and synced: that is the release. Others
take the place of those who are killed. At the end `many` is charged until nothing fits.
`crash`: charges once, and is killed before or after a statement of SQLite, by its number; if it
lives, it prints how many there were.
"""

import os
import random
import signal
import sqlite3
import sys
import time
from functools import partial
from typing import Any

from headcount.accounting.divergence import PointCurve
from headcount.core.budget import Trust
from headcount.core.errors import BudgetExhausted
from headcount.core.guarantee import Guarantee
from headcount.ledger.ledger import Ledger


def charge(ledger: Ledger, dataset: str, epsilon: float) -> str:
    guarantee = Guarantee(epsilon, 0.0, Trust.LOCAL, True, "response", 1)
    return ledger.charge(dataset, guarantee, PointCurve(epsilon, 0.0)).id


def work(ledger: Ledger, released: int, seed: int) -> None:
    draws = random.Random(seed)
    open_for = {"many": [0.001, 0.003, 0.02], "few": [0.001], "composed": [0.05, 0.02]}
    while open_for:
        dataset = draws.choice(list(open_for))
        epsilon = draws.choice(open_for[dataset])
        try:
            name = charge(ledger, dataset, epsilon)
        except BudgetExhausted:
            if dataset == "composed" and epsilon != 0.02:
                continue
            del open_for[dataset]
            continue
        os.write(released, f"{name} {dataset} {epsilon}\n".encode())
        os.fsync(released)


def storm(place: str, path: str, processes: int, kills: int, seed: int) -> None:
    import headcount.accounting.composition  # noqa: F401  (once, before the forks)

    ledger, draws = Ledger.open(place), random.Random(seed)
    released = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def start() -> int:
        child_seed = draws.randrange(2**32)
        child = os.fork()
        if child:
            return child
        status = 1
        try:
            work(ledger, released, child_seed)
            status = 0
        finally:
            os._exit(status)

    children = [start() for _ in range(processes)]
    for _ in range(kills):
        time.sleep(draws.expovariate(1 / 0.02))
        at = draws.randrange(processes)
        os.kill(children[at], signal.SIGKILL)
        _, status = os.waitpid(children[at], 0)
        if status != signal.SIGKILL:  # it had ended by itself, though there was budget left
            raise SystemExit(f"a process ended with {status}")
        children[at] = start()
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    for epsilon in (1.0, 0.1, 0.01, 0.001):
        try:
            while True:
                name = charge(ledger, "many", epsilon)
                os.write(released, f"{name} many {epsilon}\n".encode())
        except BudgetExhausted:
            pass
    work(ledger, released, seed)  # and the others, until they refuse
    os.fsync(released)


def crash(place: str, statement: int, when: str) -> None:
    done = 0

    class Mortal(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            nonlocal done
            done += 1
            if done == statement and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = super().execute(*arguments)
            if done == statement and when == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            return result

    ledger = Ledger.open(place)
    connect = sqlite3.connect
    vars(sqlite3)["connect"] = partial(connect, factory=Mortal)
    charge(ledger, "few", 0.001)
    print(done)


if __name__ == "__main__":
    if sys.argv[1] == "storm":
        storm(sys.argv[2], sys.argv[3], *(int(word) for word in sys.argv[4:7]))
    else:
        crash(sys.argv[2], int(sys.argv[3]), sys.argv[4])
