"""The deployment files: their commands are run with the settings that they state."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from collection import free_port, two_questions
from headcount.collect.settings import AnalyzerSettings, ShufflerSettings

DEPLOY = Path(__file__).parents[1] / "deploy"
UNITS = ("headcount-analyzer.service", "headcount-shuffler.service")
COMPOSE = ("analyzer.compose.yaml", "shuffler.compose.yaml")
PASSPHRASE = "correct horse battery staple"


def settings_of(unit: str) -> dict[str, str]:
    """The settings of a systemd unit. No setting occurs twice."""
    lines = re.findall(r"^(\w+)=(.*)$", (DEPLOY / unit).read_text(), re.MULTILINE)
    assert len(dict(lines)) == len(lines)
    return dict(lines)


def command_of(compose: str) -> str:
    """The command of a compose file, folded as YAML folds it."""
    found = re.search(r"^( +)command: >-\n((?:\1 +.*\n)+)", (DEPLOY / compose).read_text(), re.M)
    assert found is not None
    return " ".join(found[2].split())


def started(command: list[str], folder: Path, port: int, **environment: str) -> str:
    """Run a command until it is ready, ask it to stop, and return what it logged."""
    log = folder / "log"
    role = "ANALYZER" if "analyzer" in command else "SHUFFLER"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=output,
            env={**os.environ, f"HEADCOUNT_{role}_PORT": str(port), **environment},
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                    break
            except httpx.HTTPError:
                time.sleep(0.1)
        assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGTERM)
        # The server ends itself by the same signal when it has stopped. systemd takes this for 0.
        assert process.wait(40) in (0, -signal.SIGTERM), log.read_text()
    finally:
        process.kill()
        process.wait()
    return log.read_text()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with everything that an operator puts there: a key, a token and a survey."""
    words = ["analyzer", "init", ".", "--passphrase-file", "passphrase"]
    (tmp_path / "passphrase").write_text(PASSPHRASE + "\n")
    subprocess.run([sys.executable, "-m", "headcount", *words], cwd=tmp_path, check=True)
    two_questions(tmp_path, 30).save(tmp_path / "campus.json")
    return tmp_path


@pytest.mark.parametrize("unit", UNITS)
def test_the_command_of_a_unit_starts_and_stops(place: Path, unit: str) -> None:
    settings = settings_of(unit)
    program, *words = shlex.split(settings["ExecStart"])
    assert Path(program).name == "headcount"
    secrets = place / "credentials"
    secrets.mkdir()
    (secrets / "passphrase").write_text(PASSPHRASE + "\n")
    words = [word.replace("${CREDENTIALS_DIRECTORY}", str(secrets)) for word in words]
    assert "$" not in " ".join(words)
    logged = started([sys.executable, "-m", "headcount", *words], place, free_port())
    assert "serving" in logged


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_keeps_its_state_and_gives_no_rights(unit: str) -> None:
    settings = settings_of(unit)
    assert settings["WorkingDirectory"] == f"/var/lib/{settings['StateDirectory']}"
    assert settings["Restart"] == "on-failure"
    # A service needs up to 30 seconds to answer the requests that have begun.
    assert int(settings["TimeoutStopSec"]) > 30
    for name in ("DynamicUser", "NoNewPrivileges", "ProtectHome", "PrivateTmp"):
        assert settings[name] == "yes"
    assert settings["ProtectSystem"] == "strict"


@pytest.mark.slow
@pytest.mark.parametrize("compose", COMPOSE)
def test_the_command_of_a_compose_file_starts_and_stops(place: Path, compose: str) -> None:
    """Everything but the installation is run: there, packages come from the network."""
    shell, option, script = shlex.split(command_of(compose))
    assert (shell, option) == ("sh", "-c")
    installed, _, run = script.partition(" && exec headcount ")
    assert re.fullmatch(r"pip install --quiet 'headcount\[[a-z,]+\]'", installed)
    data = place / "data"
    data.mkdir()
    for name in ("campus.json", "token"):
        (data / name).write_bytes((place / name).read_bytes())
    (data / "analyzer").mkdir()
    for name in ("key.json", "private.pem", "token", "results-token"):
        (data / "analyzer" / name).write_bytes((place / name).read_bytes())
    words = shlex.split(run.replace("/data", str(data)))
    named = re.findall(r"^ +(HEADCOUNT_\w+): ", (DEPLOY / compose).read_text(), re.M)
    assert named == (["HEADCOUNT_PASSPHRASE"] if "analyzer" in compose else [])
    environment = dict.fromkeys(named, PASSPHRASE)
    started([sys.executable, "-m", "headcount", *words], place, free_port(), **environment)


@pytest.mark.parametrize("compose", COMPOSE)
def test_a_compose_file_serves_only_this_host_and_keeps_its_data(compose: str) -> None:
    text = (DEPLOY / compose).read_text()
    (port,) = re.findall(r'- "127\.0\.0\.1:(\d+):\1"', text)
    assert port == ("8402" if "analyzer" in compose else "8401")
    assert "- ./data:/data" in text
    assert "stop_grace_period: 40s" in text


def test_the_ports_of_the_files_are_the_default_ports() -> None:
    for settings, port in ((ShufflerSettings, 8401), (AnalyzerSettings, 8402)):
        assert settings.load(environment={}).port == port
