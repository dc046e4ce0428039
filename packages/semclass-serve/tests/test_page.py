"""The page in a browser: search, filters, links, judgements, classifying, keys, and accessibility."""

import os
import re
import shutil

import pytest

playwright = pytest.importorskip("playwright.sync_api")

from serving import KEY, KEYS, Served  # noqa: E402

from semclass import HybridRetriever, Passage  # noqa: E402
from semclass_serve.engine import Engine  # noqa: E402
from semclass_serve.limits import Settings  # noqa: E402

expect = playwright.expect
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.extras,
    pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium: CHROMIUM names it"),
]

QUESTION = "Who designed the tower?"
ATTACK = "<img src=x onerror=\"document.title='broken'\">"


@pytest.fixture(scope="module")
def retriever(models):
    texts = [
        ("a.md", "The tower was designed by Ada Merriweather. It is red."),
        ("a.md", "The tower is 40 m tall."),
        ("b.md", f"The tower was painted in 1901. {ATTACK}"),
        ("b.md", "Trams pass the tower every ten minutes. " * 30),
    ]
    passages = [
        Passage(str(place), text, {"document": document, "page": place, "headings": ["The tower", f"Part {place}"]})
        for place, (document, text) in enumerate(texts)
    ]
    return HybridRetriever.from_passages(passages, models=models)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documents")
    for name in ("a.md", "b.md"):
        (folder / name).write_text("The tower was designed by Ada Merriweather.")
    return folder


@pytest.fixture(scope="module")
def address(models, retriever, folder, tmp_path_factory):
    judgements = tmp_path_factory.mktemp("judgements") / "judgements.jsonl"
    settings = Settings(documents=folder, judgements=judgements)
    with Served(Engine(models, retriever, settings)) as service:
        yield f"{service.url}/"


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Opens pages. At the end, no other host was asked, and the console holds nothing unexpected."""
    contexts, messages, requests = [], [], []

    def opened(address, width=1280, expected=r"$^", **options):
        context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda line: None if re.search(expected, line.text) else messages.append(line.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert messages == []
    assert [url for url in requests if not url.startswith("http://127.0.0.1:")] == []


def ask(page, question=QUESTION):
    page.get_by_label("Your question").fill(question)
    page.get_by_label("Your question").press("Enter")
    settle(page)


def settle(page):
    expect(page.locator("#answer")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#answer .status")).to_contain_text("passage")


def test_a_search_marks_the_sentence_that_answers(open_page, address):
    page = open_page(address)
    ask(page)
    first = page.locator("#results article").first
    expect(first.locator("mark").first).to_contain_text("The tower was designed by Ada Merriweather.")
    expect(first.get_by_role("heading")).to_have_text("Part 0")
    expect(page.locator("#best li").first).to_contain_text("Ada Merriweather")
    first.get_by_text("Why place").click()
    expect(first.get_by_role("table", name="Parts of the score")).to_be_visible()
    assert page.title().startswith(QUESTION)
    page.go_back()
    expect(page.locator("#results article")).to_have_count(0)


def test_facets_and_conditions_filter(open_page, address):
    page = open_page(address, expected="422")
    ask(page)
    page.get_by_label("b.md").check()
    expect(page.locator("#results article")).to_have_count(2)
    page.get_by_label("Only passages where").fill("page>=3")
    page.get_by_role("button", name="Add").click()
    expect(page.locator("#results article")).to_have_count(1)
    page.get_by_label("Only passages where").fill("pages=3")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("alert").first).to_contain_text("did you mean 'page'")


def test_a_hit_opens_its_document(open_page, address):
    page = open_page(address)
    ask(page)
    link = page.locator("#results article a").first
    assert "/documents/a.md#:~:text=The%20tower" in link.get_attribute("href")
    assert link.get_attribute("rel") == "noopener noreferrer"


def test_a_judgement_is_stored(open_page, address):
    page = open_page(address)
    ask(page)
    group = page.get_by_role("group", name="Does this answer it?").first
    group.get_by_role("button", name="Yes").click()
    expect(group.get_by_role("status")).to_have_text("Stored.")
    expect(group.get_by_role("button", name="Yes")).to_have_attribute("aria-pressed", "true")


def test_texts_are_shown_and_never_run(open_page, address):
    page = open_page(address)
    ask(page, f"When was the tower painted? {ATTACK}")
    expect(page.get_by_text(ATTACK).first).to_be_visible()
    expect(page.locator("#results img")).to_have_count(0)


def test_a_long_passage_is_cut_around_its_sentence(open_page, address):
    page = open_page(address)
    ask(page, "What passes the tower?")
    article = page.locator("#results article", has_text="Trams")
    assert len(article.locator(".text").first.inner_text()) < 500
    article.get_by_text("The whole passage").click()
    expect(article.locator(".text").last).to_be_visible()


def test_texts_are_classified(open_page, address):
    page = open_page(address)
    page.get_by_role("tab", name="Classify").click()
    page.get_by_label("Texts to classify").fill(f"{QUESTION}\nHow tall is it?")
    page.get_by_role("button", name="Classify").click()
    expect(page.locator("#classified .match")).to_have_text(
        [re.compile("person or group"), re.compile("number or date")]
    )


def test_a_service_with_keys_gets_one(open_page, models, retriever):
    with Served(Engine(models, retriever, Settings(keys=KEYS))) as service:
        page = open_page(f"{service.url}/#q=tower", expected="401")
        page.get_by_label("This service asks for a key").fill(KEY)
        page.get_by_role("button", name="Use the key").click()
        settle(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_is_accessible(open_page, address, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = open_page(address, width=width, color_scheme=scheme)
    ask(page)
    page.locator("#results details").first.locator("summary").click()
    for tab in ("Search", "Classify"):
        page.get_by_role("tab", name=tab).click()
        violations = axe.Axe().run(page).response["violations"]
        assert [(item["id"], item["nodes"][0]["html"]) for item in violations] == []
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
