"""Runs the programs of the guide and prints what each of them prints, as JSON.

Standard input is a list of programs as JSON. A program has a `language`, which is `python` or `sh`,
and its `code`. Every program runs in a process of its own, in an empty folder.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def output(program: dict[str, str]) -> str:
    """What a program prints. A program that fails stops the build."""
    shells = {"python": [sys.executable, "-"], "sh": ["sh", "-eu"]}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            shells[program["language"]],
            input=program["code"],
            cwd=folder,
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "HEADCOUNT_CACHE": folder,
                "NO_COLOR": "1",
                "COLUMNS": "80",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    if done.returncode:
        sys.exit(f"this program of the guide fails:\n{program['code']}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        json.dump(list(pool.map(output, json.load(sys.stdin))), sys.stdout)
