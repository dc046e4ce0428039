"""The container file, as far as it can be tried without a container engine.

What it copies and installs is copied and installed; what it starts is started as the user it names, on a file system that
is mounted read-only, in a network of its own without a way out, without any right.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import pytest
from world import ROOT

from semclass.cli.main import cli

pytestmark = pytest.mark.extras

FOLDER = ROOT / "docs" / "container"
CORPUS = ROOT / "semclass" / "demo_data" / "corpus.jsonl"
BASE = Path(sys.executable).resolve()
"""The interpreter itself: a link to it may lie where only its owner may look."""

# Runs as root of namespaces of its own, and gives everything away before it starts anything.
CONFINED = """
set -euo pipefail
python=$1 prefix=$2 hidden=$3 place=$4 user=$5; shift 5
"$python" -c 'import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any:
    fcntl.ioctl(any, 0x8914, struct.pack("16sh14x", b"lo", 0x49))  # SIOCSIFFLAGS: up, running, loopback'
if [ -n "$hidden" ]; then  # the interpreter lies where only root may look
    mount --bind "$prefix" "$place"
    mount -t tmpfs -o mode=0755 tmpfs "$hidden"
    mkdir -p "$prefix"
    mount --move "$place" "$prefix"
fi
mount -o remount,bind,ro /
cd /
exec setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
"""

# Starts the service as an engine would, asks it, and stops it.
DRIVER = """
import json, os, signal, socket, subprocess, sys, time, urllib.request
command, check = json.loads(sys.argv[1])
said = {"user": os.getuid()}
try:
    open("/written", "w")
except OSError as error:
    said["write"] = error.errno
with socket.socket() as out:
    out.settimeout(2)
    said["way out"] = out.connect_ex(("192.0.2.1", 80)) == 0
service = subprocess.Popen(command, stderr=subprocess.PIPE)
end = time.monotonic() + 60
while service.poll() is None and time.monotonic() < end and subprocess.run(check, stderr=subprocess.DEVNULL).returncode:
    time.sleep(0.2)
body = json.dumps({"question": "Who was Galileo?", "k": 1}).encode()
asked = urllib.request.Request("http://127.0.0.1:8080/api/search", body, {"Content-Type": "application/json"})
said["hits"] = len(json.load(urllib.request.urlopen(asked, timeout=30))["hits"])
service.send_signal(signal.SIGTERM)
service.communicate(timeout=30)
said["left"] = service.returncode
print(json.dumps(said))
"""


def instructions(text):
    """(name, rest) of each instruction."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()]


STEPS = instructions((FOLDER / "Containerfile").read_text())


def last(name):
    return [rest for step, rest in STEPS if step == name][-1]


def test_it_says_who_runs_and_opens_nothing_else():
    assert last("USER") == "10001:10001"
    assert {name for name, _ in STEPS} <= {
        "ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD",
    }  # fmt: skip
    assert json.loads(last("ENTRYPOINT")) == ["semclass", "serve"]
    assert json.loads(last("CMD"))[0] == "/index"


def test_the_build_sees_only_what_it_copies():
    kept = {line[1:] for line in (FOLDER / "Containerfile.dockerignore").read_text().splitlines() if line[0] == "!"}
    copied = [shlex.split(rest) for name, rest in STEPS if name == "COPY" and "--from" not in rest]
    assert kept == {name for names in copied for name in names[:-1]}


def test_the_commands_of_the_composed_services_are_commands():
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]
    for name in ("upload", "search"):
        service = services[name]
        built = service["build"]
        assert (ROOT / built["dockerfile"]).samefile(FOLDER / "Containerfile")
        extras = (ROOT / "pyproject.toml").read_text()
        assert all(f"\n{extra} = [" in extras for extra in built["args"]["EXTRAS"].split(","))
        assert set(service["depends_on"]) <= set(services)
        _, *words = [*service.get("entrypoint", json.loads(last("ENTRYPOINT"))), *service["command"]]
        command = cli
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        words = [str(ROOT) if word == "/index" else word for word in words]
        assert command.make_context(name, words).params, "its options are not accepted"
    assert [name for name, service in services.items() if "ports" in service] == ["search"]


@pytest.fixture
def place():
    """A folder that everybody may read."""
    folder = Path(tempfile.mkdtemp(prefix="container"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv", "mount"))),
    reason="namespaces need Linux, root, unshare and setpriv",
)
def test_it_serves_without_rights_network_or_a_file_to_write(place):
    tried = ["unshare", "--mount", "--net", "mount", "-o", "remount,bind,ro", "/"]
    if subprocess.run(tried, capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no namespaces")
    source, installed, index = place / "src", place / "semclass", place / "index"
    source.mkdir()
    for name, rest in STEPS:
        names = shlex.split(rest)
        if name == "COPY" and "--from" not in rest:
            for each in names[:-1]:
                given, goal = ROOT / each, source / names[-1].removeprefix("./")
                shutil.copytree(given, goal) if given.is_dir() else shutil.copy(given, goal)
        elif name == "RUN":
            rest = rest.replace("/opt/semclass", str(installed)).replace("python -m venv", f"{BASE} -m venv")
            subprocess.run(["sh", "-ec", rest], cwd=source, check=True, capture_output=True)
    programs = installed / "bin"
    subprocess.run([programs / "semclass", "index", "build", CORPUS, "--out", index], check=True, capture_output=True)

    variables = dict(part.split("=", 1) for part in last("ENV").split())
    variables["PATH"] = variables["PATH"].replace("/opt/semclass", str(installed))
    command = [
        *json.loads(last("ENTRYPOINT")),
        *(str(index) if part == "/index" else part for part in json.loads(last("CMD"))),
    ]
    check = json.loads(last("HEALTHCHECK").partition(" CMD ")[2])
    prefix = Path(sys.base_prefix)
    hidden = next((str(up) for up in reversed(prefix.parents) if not up.stat().st_mode & 0o001), "")
    (place / "python").mkdir()
    user = last("USER").partition(":")[0]
    run = subprocess.run(
        ["unshare", "--mount", "--net", "bash", "-c", CONFINED, "confined", sys.executable, prefix, hidden,
         place / "python", user, programs / "python", "-c", DRIVER, json.dumps([command, check])],
        env=variables, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout.splitlines()[-1])
    assert said == {"user": 10001, "write": 30, "way out": False, "hits": 1, "left": 0}, run.stderr
