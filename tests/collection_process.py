"""A shuffler or an analyzer for the tests. It kills itself at a step that the test chooses.

python collection_process.py shuffler FOLDER
"""

import os
import signal
import sys
import time
from pathlib import Path

from headcount.collect import keys
from headcount.collect.analyzer import Analyzer
from headcount.collect.analyzer_app import analyzer_app
from headcount.collect.document import Document
from headcount.collect.server import serve
from headcount.collect.settings import AnalyzerSettings, ShufflerSettings
from headcount.collect.shuffler import Shuffler
from headcount.collect.shuffler_app import shuffler_app
from headcount.collect.store import opened

TOKEN = "a token that only the tests know"


def reached(step: str) -> None:
    if step == os.environ.get("KILL_AT"):
        os.kill(os.getpid(), signal.SIGKILL)


def main(role: str, folder: Path) -> None:
    survey = Document.load(folder / "survey.json")
    store = opened(os.environ.get("STORE") or str(folder / f"{role}.db"), wait=5)
    if role == "shuffler":
        port = int(survey.addresses.shuffler.rpartition(":")[2])
        settings = ShufflerSettings.load(
            port=port, token=TOKEN, body_seconds=1.0, rate=1e9, burst=10**9
        )
        closes_with = int(os.environ.get("CLOSES_WITH", "0")) or None
        made = Shuffler(store, reached=reached)
        made.register(survey, closes_with=closes_with)
        serve(shuffler_app(made, settings, clock=time.monotonic), settings)
    else:
        port = int(survey.addresses.analyzer.rpartition(":")[2])
        analysis = AnalyzerSettings.load(port=port, token=TOKEN)
        found = Analyzer(store, keys.private_key(folder, None), reached=reached)
        found.register(survey)
        serve(analyzer_app(found, analysis), analysis)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
