"""Both services of one survey on one machine."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collection import healthy

# Starts both services, says where they are, and then waits.
PARENT = """
import sys, time
from pathlib import Path
import headcount as hc
from headcount.collect.document import Document
from headcount.collect.pair import Pair
from headcount.survey.questions import YesNo
from headcount.survey.survey import Survey
survey = Survey((YesNo("smoke", "Do you smoke?"),), hc.Budget(1), hc.Trust.LOCAL, 10)
pair = Pair.create(Path(sys.argv[1]), lambda key, places: Document.of(survey, key, places))
pair.start()
print(pair.document.addresses.shuffler, pair.document.addresses.analyzer, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    "ending", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_services_end_with_the_process_that_started_them(tmp_path: Path, ending: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            services = process.stdout.readline().split()
            assert [healthy(url) for url in services] == [True, True]
        finally:
            os.kill(process.pid, ending)
    deadline = time.monotonic() + 120
    while any(healthy(url) for url in services):
        assert time.monotonic() < deadline, "the services must end"
        time.sleep(0.1)
