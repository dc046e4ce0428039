"""The page in Firefox, by WebDriver BiDi: asking, own text, classifying and an error, at two widths."""

import json
import os
import shutil
import socket
import subprocess
import time
from itertools import count

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("playwright")  # which browsing.py needs
pytest.importorskip("websockets")

from browsing import QUESTION
from websockets.sync.client import connect

FIREFOX = os.environ.get("FIREFOX") or shutil.which("firefox-esr") or shutil.which("firefox")

pytest_plugins = ("browsing",)
pytestmark = [pytest.mark.extras, pytest.mark.skipif(FIREFOX is None, reason="needs a Firefox: FIREFOX names it")]

PATIENCE = 60.0
WIDE, PHONE = (1280, 900), (390, 844)


class Page:
    """One page of a browser that is driven by commands."""

    def __init__(self, connection):
        self._connection, self._ids, self.said = connection, count(1), []
        self.command("session.new", capabilities={})
        self.command("session.subscribe", events=["log.entryAdded"])
        self._context = self.command("browsingContext.getTree")["contexts"][0]["context"]

    def command(self, method, **parameters):
        number = next(self._ids)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._connection.recv(PATIENCE))
            if answer.get("method") == "log.entryAdded":
                self.said.append(answer["params"]["text"])
            if answer.get("id") == number:
                assert answer["type"] == "success", answer
                return answer["result"]

    def open(self, address, size):
        viewport = dict(zip(("width", "height"), size, strict=True))
        self.command("browsingContext.setViewport", context=self._context, viewport=viewport)
        self.command("browsingContext.navigate", context=self._context, url=address, wait="complete")

    def run(self, code):
        found = self.command("script.evaluate", expression=code, target={"context": self._context}, awaitPromise=True)
        assert found["type"] == "success", found
        return found["result"].get("value")

    def wait(self, condition):
        ended = time.monotonic() + PATIENCE
        while not self.run(condition):
            assert time.monotonic() < ended, condition

    def type(self, text):
        actions = [{"type": kind, "value": sign} for sign in text for kind in ("keyDown", "keyUp")]
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self.command("input.performActions", context=self._context, actions=[keyboard])


@pytest.fixture
def firefox(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [FIREFOX, "--headless", "--no-remote", "--profile", tmp_path, "--remote-debugging-port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            next(line for line in process.stderr if "WebDriver BiDi listening" in line)
            with connect(f"ws://127.0.0.1:{port}/session", max_size=2**26) as connection:
                yield Page(connection)
        finally:
            process.terminate()


def text(selector):
    return f"document.querySelector('{selector}').textContent"


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_the_journey(firefox, service, size):
    firefox.open(service, size)
    firefox.wait("document.querySelectorAll('#try button').length === 3")
    firefox.run("document.getElementById('question').focus()")
    firefox.type(f"{QUESTION}\ue007")
    firefox.wait(f"document.title.startsWith('{QUESTION}') && {text('#results')}.includes('Ada Merriweather')")
    assert firefox.run("document.querySelector('#results .text').getBoundingClientRect().bottom") < size[1]
    assert firefox.run("document.documentElement.scrollWidth") <= size[0]
    field = "document.getElementById('question')"
    assert firefox.run(f"{field}.scrollHeight <= {field}.clientHeight"), "the question is cut"
    assert firefox.run("document.querySelector('#results mark').textContent.length") > 0
    firefox.type("\ue00cjjw")
    firefox.wait(f"{text('#results')}.includes('Parts of the score')")
    firefox.run("document.getElementById('tab-own').click()")
    firefox.run("document.getElementById('example').click()")
    firefox.wait(f"{text('#results')}.includes('October 1874')")
    firefox.run("document.getElementById('tab-classify').click()")
    firefox.run("document.getElementById('texts').focus()")
    firefox.type("Who built it?")
    firefox.run("document.getElementById('classify').requestSubmit()")
    firefox.wait(f"{text('#classes .status')} === '1 question classified.'")
    firefox.run("document.getElementById('tab-search').click()")
    firefox.run("window.fetch = () => Promise.reject(new TypeError('no connection'))")
    firefox.run("document.getElementById('ask').requestSubmit()")
    firefox.wait(f"{text('#answer .problem')}.includes('does not answer')")
    assert firefox.said == []
