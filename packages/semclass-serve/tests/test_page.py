"""The page in a browser: the journeys, what goes wrong, and who cannot see it or use a mouse."""

import hashlib
import json
import re

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("playwright")
pytest.importorskip("axe_playwright_python")

from axe_playwright_python.sync_playwright import Axe
from browsing import EXAMPLES, QUESTION, ask, example, marks, served, settled, unfold
from playwright.sync_api import expect

from semclass import HybridRetriever, Models, PassageIndex, TextClassifier, build_index
from semclass.documents.readers import read_passages

pytest_plugins = ("browsing",)
pytestmark = marks

TAGS = '<img src=x onerror=window.hit=1><script>window.hit=1</script> & "quoted" </mark>'


def first(page, text):
    """Wait until a passage of the example is the first."""
    expect(page.locator("#results .text").first).to_contain_text(text)


OPENED = "Work on it began in 1871"


def shown(page):
    """Titles or texts of the results, in their order."""
    return page.locator("#results .text").all_text_contents()


# ---------------------------------------------------------------- searching


def test_a_question_gives_a_list_with_the_answering_sentence_marked(open_page, service, retriever):
    page = open_page(service)
    ask(page)
    hits = retriever.search(QUESTION, explain=True)
    assert page.locator("#results article").count() == len(hits)
    start, end = hits[0].explanation.sentence
    expect(page.locator("#results mark").first).to_have_text(hits[0].text[start:end])
    assert page.evaluate("location.hash") == "#q=Who+designed+the+tower%3F"
    assert page.title().startswith(QUESTION)
    assert page.locator(".why").count() == 0


def test_the_best_sentences_stand_above_with_their_results(open_page, service, retriever):
    page = open_page(service)
    ask(page)
    best = retriever.ask(QUESTION, 3).sentences[0]
    said = page.get_by_role("region", name="Best sentences").get_by_role("listitem").first
    expect(said).to_contain_text(best.text)
    place = [hit.id for hit in retriever.search(QUESTION)].index(best.id)
    said.get_by_role("button", name=f"result {place + 1}").click()
    expect(page.locator("#results article").nth(place)).to_be_focused()


def test_it_opens_empty_with_questions_to_try_and_those_of_before(open_page, service):
    page = open_page(service)
    offered = page.locator("#try button")
    expect(offered).to_have_count(3)
    expect(page.get_by_label("Your question")).to_have_value("")
    offered.last.click()
    settled(page)
    expect(page).to_have_title(re.compile(re.escape(offered.last.text_content())))
    page.goto("about:blank")
    page.goto(service)
    expect(page.locator("#recent button")).to_have_text([EXAMPLES[-1]])
    page.get_by_role("button", name="Forget these questions").click()
    expect(page.locator("#recent-part")).to_be_hidden()


@pytest.mark.parametrize("width", [360, 1280])
def test_where_nothing_seems_to_answer_the_page_says_so_before_the_passages(open_page, service, retriever, width):
    strange = "At what temperature does tungsten melt?"
    assert retriever.search(strange).answerable < retriever.models.answerable_from
    page = open_page(f"{service}#q={strange}", width)
    settled(page)
    status = page.locator("#answer .status")
    expect(status).to_contain_text("Nothing here seems to answer this")
    assert_accessible(page)
    page.get_by_label("Your question").fill("How long can kelp grow?")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(status).not_to_contain_text("Nothing here")
    settled(page)


def test_the_first_passage_is_above_the_fold(open_page, service):
    for width, height in ((1280, 900), (390, 844)):
        page = open_page(f"{service}#q={QUESTION}", width)
        page.set_viewport_size({"width": width, "height": height})
        settled(page)
        assert page.locator("#results .text").first.evaluate("text => text.getBoundingClientRect().bottom") < height


def test_a_switch_tells_what_moved_and_why(open_page, service, retriever):
    page = open_page(service)
    ask(page)
    page.get_by_role("switch", name="Why this order").check()
    card = page.locator("#results article").first
    expect(
        card.get_by_role("table", name="Parts of the score").get_by_role("row", name="the same words")
    ).to_be_visible()
    words = card.get_by_role("table", name="Words of the question")
    expect(words.get_by_role("row", name="designed")).to_contain_text("itself")
    hits = retriever.search(QUESTION)
    moved = next(hit for hit in hits if hit.rank < hit.rank_before)
    told = page.locator("#results .why > p").nth(moved.rank - 1)
    expect(told).to_contain_text(f"From place {moved.rank_before} to {moved.rank}")
    expect(page.locator("#asks")).to_contain_text("person or group")
    assert "why=1" in page.evaluate("location.hash")


def test_a_new_question_does_not_wait_for_an_old_one(open_page, service):
    page = open_page(service)
    page.evaluate("""() => {
        const real = window.fetch;
        const never = (signal) => new Promise((_, fail) => {
            signal.addEventListener("abort", () => fail(signal.reason));
        });
        window.fetch = (path, options) =>
            options.body?.includes("never") ? never(options.signal) : real(path, options);
    }""")
    page.get_by_label("Your question").fill("never")
    page.get_by_label("Your question").press("Enter")
    expect(page.locator("#answer .status")).to_have_text("Searching …")
    ask(page)
    expect(page.locator("#results article")).to_have_count(10)
    expect(page.get_by_role("alert").first).to_be_hidden()


def test_addresses_hold_everything_and_history_goes_back(open_page, tickets):
    page = open_page(f'{tickets}#q=broken&where=customer+in+("Acme")')
    settled(page)
    expect(page.get_by_label("Acme")).to_be_checked()
    before, texts = page.evaluate("location.hash"), shown(page)
    ask(page, "invoice")
    assert page.evaluate("location.hash") != before
    page.go_back()
    expect(page.get_by_label("Your question")).to_have_value("broken")
    settled(page)
    expect(page.locator("#results .text")).to_have_text(texts)


# ---------------------------------------------------------------- documents, filters, judgements

TICKETS = """id,date,customer,message
1,2026-01-03,Acme,The lamp of the boiler is broken since Monday.
2,2026-02-05,Birch,My invoice for the boiler was charged twice.
3,2026-03-11,Acme,The parcel with the new lamp has not arrived.
4,2026-03-12,Birch,The app says that my password is wrong.
"""

MANUAL = """<title>Boiler</title><h1>Boiler</h1><script>document.title = "hit"</script>
<p>The warranty of the burner ends two years after the day on which it was bought.</p>"""


@pytest.fixture(scope="module")
def tickets(models, tmp_path_factory):
    """A service with a folder of documents, whose index is labelled by a head."""
    folder = tmp_path_factory.mktemp("support")
    (folder / "tickets.csv").write_text(TICKETS)
    (folder / "manual.html").write_text(MANUAL)
    head = TextClassifier(models.encoder, cv=2).fit(
        ["The lamp is broken.", "The app fails.", "My invoice is wrong.", "It was charged twice."],
        ["defect", "defect", "billing", "billing"],
    )
    head.save(folder.parent / "head")
    labelled = Models.load(heads={"topic": folder.parent / "head"})
    index = folder.parent / "index"
    build_index(index, read_passages(folder), passage_encoder=labelled.passage_encoder)
    with served(labelled, HybridRetriever(PassageIndex.load(index), labelled), documents=folder) as address:
        yield address


def test_facets_and_conditions_narrow_the_list(open_page, tickets):
    page = open_page(tickets)
    ask(page, "lamp")
    expect(page.get_by_role("group", name="topic")).to_contain_text("by your head")
    expect(page.locator("#results .chip").first).to_contain_text("topic: defect")
    page.get_by_label("Acme").check()
    expect(page.locator("#results article")).to_have_count(2)
    page.get_by_label("Only passages where").fill("date>=2026-03-01")
    page.get_by_label("Only passages where").press("Enter")
    expect(page.locator("#results article")).to_have_count(1)
    page.get_by_role("button", name="date>=2026-03-01").click()
    expect(page.locator("#results article")).to_have_count(2)
    page.get_by_label("Birch").check()
    page.get_by_label("Acme").uncheck()
    expect(page.locator("#conditions")).to_contain_text('customer in ("Birch")')


def test_a_condition_that_cannot_be_read_is_told_beside_it(open_page, tickets):
    page = open_page(tickets, expected="422")
    ask(page, "lamp")
    box = page.get_by_label("Only passages where")
    box.fill("custom=Acme")
    box.press("Enter")
    expect(page.locator("#where-fault")).to_contain_text("did you mean 'customer'")
    expect(box).to_have_value("custom=Acme")
    box.fill('{"customer": "Nobody"}')
    box.press("Enter")
    expect(page.locator("#answer .status")).to_contain_text("No passage was found. The filters leave none")


def test_a_document_opens_at_the_sentence_and_its_scripts_do_not_run(open_page, tickets):
    page = open_page(tickets, expected="sandboxed")
    ask(page, "When does the warranty of the burner end?")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Boiler").first.click()
    document = opened.value
    document.wait_for_load_state()
    assert "#:~:text=The%20warranty" in page.get_by_role("link", name="Boiler").first.get_attribute("href")
    expect(document).to_have_title("Boiler")
    assert document.evaluate("window.opener") is None


def test_judgements_are_stored_and_taken_back(open_page, tickets):
    page = open_page(tickets)
    ask(page, "lamp")
    right, wrong = (page.get_by_role("button", name=name).first for name in ("Yes", "No"))
    bodies = []
    page.on("request", lambda request: bodies.append(request.post_data_json) if "feedback" in request.url else None)
    right.click()
    expect(right).to_have_attribute("aria-pressed", "true")
    wrong.click()
    expect(wrong).to_have_attribute("aria-pressed", "true")
    expect(right).to_have_attribute("aria-pressed", "false")
    wrong.click()
    expect(wrong).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#heard")).to_have_text("Taken back.")
    assert [body["right"] for body in bodies] == [True, False, None]
    assert {body["question"] for body in bodies} == {"lamp"}


def test_where_judgements_are_not_kept_the_page_says_so_or_has_no_buttons(open_page, service, tickets):
    page = open_page(service, expected="404")
    ask(page)
    page.get_by_role("button", name="Yes").first.click()
    expect(page.locator("#heard")).to_contain_text("Not stored: ")  # an index in memory has no place for it
    page = open_page(tickets, expected="404")
    page.route("**/api/feedback", lambda route: route.fulfill(status=404, body="{}"))
    ask(page, "lamp")
    page.get_by_role("button", name="Yes").first.click()
    expect(page.get_by_role("button", name="Yes")).to_have_count(0)


def test_right_to_left_text_runs_that_way(open_page, service):
    page = open_page(f"{service}#source=own")
    page.get_by_label(re.compile("^Passages, one a line")).fill("بُني الجسر في عام 1874.")
    ask(page, "متى بُني الجسر؟")
    assert page.locator("#results .text").first.evaluate("text => getComputedStyle(text).direction") == "rtl"


# ---------------------------------------------------------------- text of one's own


def test_without_an_index_passages_are_pasted(open_page, without_index):
    page = open_page(without_index)
    expect(page.get_by_role("tab", name="Search")).to_be_hidden()
    expect(page.get_by_label(re.compile("^Passages, one a line"))).to_be_visible()
    example(page)
    first(page, OPENED)
    expect(page.get_by_role("button", name="Yes")).to_have_count(0)


def test_empty_questions_and_no_passages_are_told(open_page, service):
    page = open_page(f"{service}#source=own")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_label("Your question")).to_be_focused()
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("paste some above")


def test_a_file_of_ones_own_is_opened_or_dropped(open_page, service, tmp_path):
    text = "# Tower\n\nThe **tower** is 40 m tall, says the [guide](https://example.org).\n\nIt is red.\n"
    (tmp_path / "tower.md").write_text(text)
    page = open_page(f"{service}#source=own")
    page.get_by_label("Open a text file").set_input_files(tmp_path / "tower.md")
    ask(page, "How tall is the tower?")
    first(page, "The tower is 40 m tall, says the guide.")
    page = open_page(f"{service}#q={QUESTION}")
    settled(page)
    page.evaluate(
        """text => {
            const data = new DataTransfer();
            data.items.add(new File([text], "tower.md"));
            document.getElementById("ask").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true }));
        }""",
        text,
    )
    expect(page.get_by_label(re.compile("^Passages, one a line"))).to_have_value(re.compile("40 m tall"))
    web = b"<title>Tower</title><h1>Tower</h1><ul><li>It is <b>red</b>.</li></ul><script>hit = 1</script>"
    page.get_by_label("Open a text file").set_input_files({"name": "a.html", "mimeType": "text/html", "buffer": web})
    expect(page.get_by_label(re.compile("^Passages, one a line"))).to_have_value("Tower\n\nIt is red.")
    expect(page.locator("#answer .status")).to_contain_text("a.html: 2 passages")
    page.get_by_label("Open a text file").set_input_files({"name": "a.bin", "mimeType": "x/y", "buffer": b"\0\1"})
    expect(page.get_by_role("alert")).to_contain_text("This file is no text")


# ---------------------------------------------------------------- classifying


def test_pasted_text_is_classified(open_page, service):
    page = open_page(service)
    page.get_by_role("tab", name="Classify").click()
    box = page.get_by_label("Text to classify")
    box.fill("How tall is the tower?\n\nWho built it?")
    box.press("Control+Enter")
    expect(page.locator("#classes .status")).to_have_text("2 questions classified.")
    first, second = page.locator("#classified > li").all()
    expect(first.locator(".match")).to_contain_text("number or date")
    expect(first).to_contain_text("distance")
    expect(second).to_contain_text("person")
    page.get_by_role("radio", name="what a passage tells").check()
    page.get_by_label("as a whole").check()
    page.get_by_role("button", name="Classify").click()
    expect(page.locator("#classes .status")).to_have_text("1 passage classified.")
    assert page.evaluate("location.hash") == "#tab=classify"


def test_a_head_of_ones_own_classifies_too(open_page, tickets):
    page = open_page(f"{tickets}#tab=classify")
    page.get_by_role("radio", name="topic (your head)").check()
    page.get_by_label("Text to classify").fill("The invoice was charged twice.")
    page.get_by_role("button", name="Classify").click()
    expect(page.locator("#classified .match")).to_contain_text("billing")
    page.get_by_role("tab", name="Your text").click()
    example(page)
    expect(page.locator("#results .chip.match").first).to_contain_text("topic: ")


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("status", "body", "title", "text"),
    [
        (429, {"message": "full"}, "The service is busy", "about 1 second"),
        (500, None, "failed (500)", "Nothing more is known"),
        (503, {"message": "it is stopping"}, "not ready", "it is stopping"),
        (None, None, "does not answer", "stopped"),
    ],
)
def test_errors_are_told_in_words_and_tried_again(open_page, service, status, body, title, text):
    page = open_page(service, expected="Failed to load resource")
    if status is None:
        page.route("**/api/search", lambda route: route.abort("connectionrefused"))
    else:
        answer = json.dumps({**body, "request_id": "r-17"}) if body else "<h1>no JSON</h1>"
        page.route(
            "**/api/search", lambda route: route.fulfill(status=status, body=answer, headers={"Retry-After": "1"})
        )
    page.get_by_label("Your question").fill(QUESTION)
    page.get_by_label("Your question").press("Enter")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text(title)
    expect(alert).to_contain_text(text)
    assert "null" not in alert.text_content()
    if body:
        expect(alert).to_contain_text("r-17")
    page.unroute("**/api/search")
    page.get_by_role("button", name="Try again").click()
    settled(page)
    expect(alert).to_be_hidden()
    expect(page.locator("#results article")).to_have_count(10)


def test_an_error_leaves_no_results_under_another_question(open_page, service):
    page = open_page(service, expected="503")
    ask(page)
    page.route("**/api/search", lambda route: route.fulfill(status=503, body="{}"))
    page.get_by_label("Your question").press("Enter")
    expect(page.locator("#results.stale")).to_be_visible()  # they answer this question still, and are marked
    expect(page.locator("#answer .status")).to_contain_text("from before")
    page.get_by_label("Your question").fill("When was the lighthouse finished?")
    page.get_by_label("Your question").press("Enter")
    expect(page.locator("#results article")).to_have_count(0)
    page.unroute("**/api/search")
    page.get_by_role("button", name="Try again").click()
    settled(page)
    expect(page.locator("#results:not(.stale)")).to_be_visible()


def test_a_key_is_asked_for_kept_for_the_tab_and_sent_as_bearer(open_page, models, retriever):
    key = "open-sesame-open-sesame"
    with served(models, retriever, keys=(hashlib.sha256(key.encode()).digest(),)) as address:
        page = open_page(f"{address}#q={QUESTION}", expected="401")
        box = page.get_by_label("Key", exact=True)
        expect(box).to_be_focused()
        assert box.get_attribute("type") == "password"
        box.fill("wrong")
        box.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("This key does not fit")
        expect(box).to_be_focused()
        box.fill(key)
        box.press("Enter")
        settled(page)
        expect(box).to_be_hidden()
        kept = page.evaluate("[sessionStorage.length, localStorage.length, location.href.includes('sesame')]")
        assert kept == [1, 0, False]  # a question of an address was not asked here
        page.reload()
        settled(page)
        expect(box).to_be_hidden()


# ---------------------------------------------------------------- hostile and awkward text


def test_tags_are_text(open_page, service):
    page = open_page(f"{service}#source=own")
    page.get_by_label(re.compile("^Passages, one a line")).fill(f"The bridge {TAGS} was built in 1871.\n{TAGS}")
    ask(page, f"When was the bridge {TAGS} built?")
    text = page.locator("#results .text", has_text="was built in 1871")
    expect(text).to_have_text(f"The bridge {TAGS} was built in 1871.")
    assert text.locator("img, script").count() == 0
    expect(text.locator("mark")).to_be_visible()
    page.get_by_role("tab", name="Classify").click()
    page.get_by_label("Text to classify").fill(TAGS)
    page.get_by_label("Text to classify").press("Control+Enter")
    expect(page.locator("#classified .text")).to_have_text(TAGS)
    assert page.evaluate("window.hit") is None


@pytest.mark.parametrize("width", [320, 820])
def test_no_width_and_no_word_needs_scrolling_sideways(open_page, service, width):
    page = open_page(f"{service}#source=own", width)
    page.get_by_label(re.compile("^Passages, one a line")).fill(
        f"{'unbroken' * 60} bridge\nThe bridge was built in 1871."
    )
    ask(page, f"When was {'that' * 60} bridge built?")
    page.get_by_label("Why this order").check()
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("tab", name="Classify").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


# ---------------------------------------------------------------- who cannot see it, or use a mouse


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page, tickets, scheme, width):
    page = open_page(tickets, width, color_scheme=scheme, reduced_motion="reduce", expected="500|422")
    page.wait_for_load_state("networkidle")
    assert_accessible(page)
    ask(page, "lamp")
    page.get_by_label("Why this order").check()
    settled(page)
    unfold(page)
    page.get_by_label("Acme").check()
    page.get_by_role("button", name="Yes").first.click()
    page.get_by_role("button", name="No").last.click()
    expect(page.locator("#heard")).to_contain_text("Stored")
    page.get_by_label("Only passages where").fill("colour=red")
    page.get_by_label("Only passages where").press("Enter")
    expect(page.locator("#where-fault")).to_contain_text("colour")
    assert_accessible(page)
    page.get_by_label("Your question").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="With the keyboard")).to_be_visible()
    assert_accessible(page)
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Your text").click()
    example(page)
    assert_accessible(page)
    page.route("**/api/rerank", lambda route: route.fulfill(status=500, body="{}"))
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert_accessible(page)
    page.get_by_role("tab", name="Classify").click()
    page.get_by_label("Text to classify").fill("How tall is it?\nWho built it?")
    page.get_by_role("button", name="Classify").click()
    expect(page.locator("#classes .status")).to_have_text("2 questions classified.")
    assert_accessible(page)


def assert_accessible(page):
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_all_of_it_with_the_keyboard_alone(open_page, tickets):
    page = open_page(tickets)
    page.wait_for_load_state("networkidle")
    keys = page.keyboard
    keys.press("Tab")
    expect(page.get_by_role("tab", name="Search")).to_be_focused()
    keys.press("ArrowRight")
    expect(page.get_by_role("tabpanel", name="Your text")).to_be_visible()
    keys.press("ArrowRight")
    expect(page.get_by_role("tab", name="Classify")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Classify")).to_be_visible()
    keys.press("/")
    expect(page.get_by_role("tabpanel", name="Search")).to_be_visible()
    expect(page.get_by_label("Your question")).to_be_focused()
    keys.type("lamp? j y")
    keys.press("Enter")
    settled(page)
    keys.press("Escape")
    results = page.locator("#results article")
    keys.press("j")
    expect(results.first).to_be_focused()
    keys.press("j")
    expect(results.nth(1)).to_be_focused()
    keys.press("k")
    keys.press("n")
    expect(results.first.get_by_role("button", name="No")).to_have_attribute("aria-pressed", "true")
    with page.context.expect_page():
        keys.press("o")
    keys.press("w")
    expect(page.get_by_role("table", name="Parts of the score").first).to_be_visible()
    expect(results.first).to_be_focused()
    keys.press("f")
    expect(page.locator("#facets input").first).to_be_focused()
    reach(page, "[name=customer]")
    keys.press("Space")
    expect(page.locator("#conditions")).to_contain_text("customer in")
    settled(page)
    reach(page, "#results a")
    keys.press("?")
    expect(page.get_by_role("dialog", name="With the keyboard")).to_be_visible()
    keys.press("Escape")
    expect(page.locator("#results a").first).to_be_focused()


def test_a_long_passage_is_cut_around_its_sentence(open_page, service):
    page = open_page(f"{service}#source=own")
    filler = "The town has many old houses of stone and wood, and a market on Monday. " * 8
    page.get_by_label(re.compile("^Passages, one a line")).fill(f"{filler}The 𝔅ridge was opened in 1874. {filler}")
    ask(page, "When was the 𝔅ridge opened?")
    text = page.locator("#results .text")
    expect(page.locator("#results mark")).to_have_text("The 𝔅ridge was opened in 1874.")
    assert len(text.text_content()) < 600
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Show less")).to_have_attribute("aria-expanded", "true")
    assert len(text.text_content()) > 1000


def reach(page, selector):
    """Press Tab until something is focused, which must be seen to be."""
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", selector
            return
    pytest.fail(f"{selector} is not reached")


def test_the_scheme_is_the_readers_and_can_be_changed(open_page, service):
    page = open_page(service, color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.get_by_role("button", name="Light colours").click()
    light = page.evaluate(paper)
    assert dark != light
    page.reload()
    assert page.evaluate(paper) == light
    expect(page.get_by_role("button", name="Dark colours")).to_be_visible()


def test_printed_pages_have_the_answer_and_no_controls(open_page, service):
    page = open_page(service, color_scheme="dark")
    ask(page)
    page.emulate_media(media="print", color_scheme="dark")
    expect(page.locator("#narrow")).to_be_hidden()
    expect(page.get_by_role("tab", name="Search")).to_be_hidden()
    expect(page.locator("#results .text").first).to_be_visible()
    expect(page.locator("#results .judge").first).to_be_hidden()
