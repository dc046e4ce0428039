"""The page of a service that is really served, opened in a browser: what tests of it share."""

import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright
from served import Served

import semclass
from semclass import HybridRetriever, PassageIndex
from semclass.documents.readers import read_passages
from semclass_serve.engine import Engine
from semclass_serve.settings import Settings

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")

marks = [
    pytest.mark.extras,
    pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium: CHROMIUM names it"),
]

QUESTION = "Who designed the tower?"
EXAMPLES = ("How long can kelp grow?", QUESTION, "When was the museum opened?")


@contextmanager
def served(models, retriever, **settings):
    """A service on a free port of the loopback device."""
    with Served(Engine(models, retriever, Settings(**settings))) as service:
        yield f"{service.url}/"


@pytest.fixture(scope="module")
def retriever(models):
    corpus = Path(semclass.__file__).parent / "demo_data" / "corpus.jsonl"
    return HybridRetriever(PassageIndex.build(read_passages(corpus), passage_encoder=models.passage_encoder), models)


@pytest.fixture(scope="module")
def service(models, retriever):
    with served(models, retriever, examples=EXAMPLES) as address:
        yield address


@pytest.fixture(scope="module")
def without_index(models):
    with served(models, None) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Opens pages; in the end nothing was asked of another host, and nothing unexpected stood in the console."""
    contexts, said, asked = [], [], []

    def opened(address, width=1280, expected=r"$^", **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: said.append(message.text) if not re.search(expected, message.text) else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith("http://127.0.0.1:")] == []


def ask(page, question=QUESTION):
    page.get_by_label("Your question").fill(question)
    page.get_by_label("Your question").press("Enter")
    settled(page)


def settled(page):
    expect(page.locator("#answer")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#answer .status")).to_contain_text("passage")


def example(page):
    page.get_by_role("button", name="Fill in an example").click()
    settled(page)


def unfold(page):
    """Open what is folded on a phone."""
    page.locator(".fold").evaluate_all("folded => folded.forEach((one) => { one.open = true; })")
