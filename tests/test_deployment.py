"""The deployment files: their commands are run with the settings that they state."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zipfile import ZipFile

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

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
    stated = dict([settings["Environment"].split("=")]) if "Environment" in settings else {}
    assert list(stated) == (["HEADCOUNT_SHUFFLER_PROXIES"] if "shuffler" in unit else [])
    logged = started([sys.executable, "-m", "headcount", *words], place, free_port(), **stated)
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
    """Everything but the installation is run, which the next test does."""
    shell, option, script = shlex.split(command_of(compose))
    assert (shell, option) == ("sh", "-c")
    _, _, run = script.partition(" && exec headcount ")
    data = place / "data"
    data.mkdir()
    for name in ("campus.json", "token"):
        (data / name).write_bytes((place / name).read_bytes())
    (data / "analyzer").mkdir()
    for name in ("key.json", "private.pem", "token", "results-token"):
        (data / "analyzer" / name).write_bytes((place / name).read_bytes())
    words = shlex.split(run.replace("/data", str(data)))
    named = re.findall(r"^ +(HEADCOUNT_\w+): (.*)$", (DEPLOY / compose).read_text(), re.M)
    environment = dict(named)
    assert list(environment) == (
        ["HEADCOUNT_PASSPHRASE"] if "analyzer" in compose else ["HEADCOUNT_SHUFFLER_PROXIES"]
    )
    if "analyzer" in compose:
        environment["HEADCOUNT_PASSPHRASE"] = PASSPHRASE
    started([sys.executable, "-m", "headcount", *words], place, free_port(), **environment)


@pytest.mark.slow
@pytest.mark.parametrize("compose", COMPOSE)
def test_a_compose_file_installs_the_wheel_that_it_is_given(tmp_path: Path, compose: str) -> None:
    """A wheel of the same name is installed, without its dependencies and without a network. No
    package is found by its name: another package may have this name.
    """
    wheel = tmp_path / "headcount-9.9-py3-none-any.whl"
    information = "headcount-9.9.dist-info"
    with ZipFile(wheel, "w") as file:
        file.writestr("headcount/__init__.py", "")
        extras = "".join(f"Provides-Extra: {name}\n" for name in ("cli", "service"))
        file.writestr(
            f"{information}/METADATA",
            f"Metadata-Version: 2.1\nName: headcount\nVersion: 9.9\n{extras}",
        )
        file.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        file.writestr(f"{information}/RECORD", "")
    install = shlex.split(command_of(compose))[2].partition(" && ")[0]
    command = re.sub(r"\$\{HEADCOUNT_WHEEL:\?[\w ]+\}", wheel.name, install)
    program, *words = shlex.split(command.replace("/data", str(tmp_path)))
    assert program == "pip"
    offline = ["--no-index", "--no-deps", "--target", str(tmp_path / "installed")]
    subprocess.run([sys.executable, "-m", "pip", *words, *offline], check=True)
    assert (tmp_path / "installed" / information).is_dir()


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_proxies_pass_addresses_on_and_log_none(role: str) -> None:
    nginx = (DEPLOY / f"{role}.nginx.conf").read_text()
    caddy = (DEPLOY / f"{role}.Caddyfile").read_text()
    port = (ShufflerSettings if role == "shuffler" else AnalyzerSettings).load(environment={}).port
    assert f"proxy_pass http://127.0.0.1:{port};" in nginx
    assert f"reverse_proxy 127.0.0.1:{port}\n" in caddy
    for line in (
        "access_log off;",
        "error_log /dev/null crit;",
        "proxy_request_buffering off;",
        "proxy_set_header X-Forwarded-For $remote_addr;",  # a stated address is not passed on
    ):
        assert f"    {line}\n" in nginx


@pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")
@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_nginx_reads_its_files(tmp_path: Path, role: str) -> None:
    text = (DEPLOY / f"{role}.nginx.conf").read_text()
    certificate(tmp_path)
    text = re.sub(r"/etc/letsencrypt/live/[a-z.]+", str(tmp_path), text)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {kind};\n" for kind in kinds)
    (tmp_path / "nginx.conf").write_text(f"events {{}}\nhttp {{\n{places}{text}\n}}\n")
    words = ["-t", "-q", "-p", str(tmp_path), "-c", "nginx.conf", "-g", "pid nginx.pid;"]
    subprocess.run(["nginx", *words], check=True)


@pytest.mark.skipif(not shutil.which("caddy"), reason="Caddy is not installed")
@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_caddy_reads_its_files(role: str) -> None:
    file = str(DEPLOY / f"{role}.Caddyfile")
    subprocess.run(["caddy", "validate", "--adapter", "caddyfile", "--config", file], check=True)


def certificate(folder: Path) -> None:
    """Write a certificate for nobody, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mix.example")])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(begin).not_valid_after(begin + timedelta(days=9999))
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    (folder / "fullchain.pem").write_bytes(made.public_bytes(Encoding.PEM))
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "privkey.pem").write_bytes(plain)


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
