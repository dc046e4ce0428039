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
from browsing import QUESTION, ask, example, marks, served, settled, unfold
from playwright.sync_api import expect

pytest_plugins = ("browsing",)
pytestmark = marks

TAGS = '<img src=x onerror=window.hit=1><script>window.hit=1</script> & "quoted" </mark>'


def first(page, text):
    """Wait until a passage of the example is the first."""
    expect(page.locator("#after .text").first).to_contain_text(text)


GRANITE, OPENED = "The bridge was built of granite", "Work on it began in 1871"


def order(page, place="after"):
    return page.locator(f"#{place} > li").evaluate_all("items => items.map((item) => item.dataset.id)")


def ids(hits):
    return [hit.id for hit in hits]


# ---------------------------------------------------------------- asking


def test_a_question_shows_both_orders_and_why(open_page, service, retriever):
    page = open_page(service)
    ask(page)
    hits = retriever.search(QUESTION, candidates=10)
    assert order(page) == ids(hits)
    assert order(page, "before") == ids(sorted(hits, key=lambda hit: hit.rank_before))
    assert page.locator("#strands path").count() == len(hits)
    assert page.evaluate("location.hash") == "#q=Who+designed+the+tower%3F"
    assert page.title().startswith(QUESTION)
    expect(page.locator("#asked .match")).to_contain_text(re.compile("9. %"))
    card = page.locator("#after > li").first
    expect(card.locator("mark.exact", has_text="designed")).to_be_visible()
    expect(card.locator(".chip.match")).to_contain_text("(asked for)")
    expect(page.locator("#cost")).to_contain_text("11 calls")
    expect(page.locator("#cost")).to_contain_text("$0.011")
    card.get_by_text("Why here").click()
    parts = card.get_by_role("table", name="Parts of the score")
    expect(parts.get_by_role("row", name="the same words")).to_be_visible()
    expect(card.get_by_role("table", name="Words of the question").get_by_role("row", name="designed")).to_contain_text(
        "itself"
    )
    moved = next(hit for hit in hits if hit.rank < hit.rank_before)
    spoken = page.locator(f'#after > li[data-id="{moved.id}"] .moved').text_content()
    assert f"up {moved.rank_before - moved.rank}" in spoken


def test_an_example_runs_on_opening_and_others_wait_to_be_clicked(open_page, service):
    page = open_page(service)
    offered = page.locator("#try button")
    offered.first.wait_for()
    settled(page)
    expect(page.get_by_label("Your question")).to_have_value(offered.first.text_content())
    assert page.evaluate("location.hash") == "", "the address is the reader's"
    expect(offered).to_have_count(3)
    offered.last.click()
    expect(page).to_have_title(re.compile(re.escape(offered.last.text_content())))
    settled(page)


def test_the_first_place_says_how_sure_it_is_and_why_it_rose(open_page, service, retriever):
    question = "How long can kelp grow?"
    page = open_page(f"{service}#q={question}")
    settled(page)
    found = retriever.search(question, candidates=10)
    expect(page.locator("#after .score").first).to_contain_text(found.certainty)
    expect(page.locator("#answer .status")).to_contain_text(re.compile("first rose from 2nd: .*question.* number"))
    expect(page.locator("#verdict")).to_contain_text(re.compile(rf"^{found.certainty}: .*first passage", re.IGNORECASE))


@pytest.mark.parametrize("width", [360, 1280])
def test_where_nothing_seems_to_answer_the_page_says_so_before_the_passages(open_page, service, retriever, width):
    strange = "At what temperature does tungsten melt?"
    assert retriever.search(strange).answerable < retriever.models.answerable.thresholds[0]
    page = open_page(f"{service}#q={strange}", width)
    settled(page)
    expect(page.locator("#verdict")).to_contain_text("Nothing here seems to answer this")
    assert_accessible(page)
    page.get_by_label("Your question").fill("How long can kelp grow?")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#verdict")).not_to_contain_text("Nothing here")
    settled(page)


def test_the_first_passage_is_above_the_fold(open_page, service):
    for width, height in ((1280, 900), (390, 844)):
        page = open_page(f"{service}#q={QUESTION}", width)
        page.set_viewport_size({"width": width, "height": height})
        settled(page)
        assert page.locator("#after .text").first.evaluate("text => text.getBoundingClientRect().bottom") < height


def test_the_example_is_told_step_by_step_and_phones_fold_what_is_beside(open_page, service):
    page = open_page(service, 390, reduced_motion="no-preference")
    page.locator("#after > li").first.wait_for(state="attached")
    steps = "selector => document.querySelector(selector).getAnimations().map((one) => one.effect.getTiming().delay)"
    delays = [page.evaluate(steps, selector)[0] for selector in (".asked", "#before", "#after", "#answer .status")]
    assert delays == sorted(delays)
    expect(page.get_by_label("Class match")).to_be_hidden()
    page.get_by_text("Settings").click()
    page.get_by_label("Class match").check()
    settled(page)
    page.get_by_text("Time and cost").first.click()
    expect(page.locator("#cost")).to_contain_text("A prompted model")


def test_weights_change_the_order_at_once(open_page, service):
    page = open_page(f"{service}#source=own")
    example(page)
    first(page, OPENED)
    ask(page, "When was the bridge built?")
    page.get_by_label("Class match").check()
    weight = page.get_by_role("slider", name="weight of re-ranking")
    weight.focus()
    weight.press("Home")
    expect(weight).to_have_attribute("aria-valuetext", "0")
    first(page, GRANITE)
    assert "l=0" in page.evaluate("location.hash")
    weight.press("End")
    first(page, OPENED)
    page.get_by_role("button", name="Back to what was trained").click()
    expect(weight).to_have_attribute("aria-valuetext", re.compile("as trained"))
    assert page.evaluate("location.hash") == "#q=When+was+the+bridge+built%3F&source=own"


def test_w_without_words_is_search_by_meaning(open_page, service, retriever):
    page = open_page(f"{service}#q={QUESTION}&method=none")
    settled(page)
    assert order(page) == order(page, "before") == ids(retriever.search(QUESTION, method="convex"))
    meaning = ids(retriever.search(QUESTION, method="convex", weights={"alpha": 1.0}))
    assert meaning != order(page)
    page.get_by_role("slider", name="weight of words").press("Home")
    page.wait_for_function(
        "wanted => [...document.querySelectorAll('#after > li')].map((item) => item.dataset.id).join() === wanted",
        arg=",".join(meaning),
    )
    assert page.get_by_role("slider", name="weight of words").get_attribute("aria-valuetext") == "0"


def test_one_request_at_a_time_and_the_last_value_wins(open_page, service):
    page = open_page(f"{service}#q={QUESTION}&method=class")
    settled(page)
    page.evaluate("""() => {
        const real = window.fetch;
        window.flying = 0; window.most = 0; window.sent = [];
        window.fetch = async (path, options) => {
            window.most = Math.max(window.most, ++window.flying);
            window.sent.push(Object.values(JSON.parse(options.body).weights)[0]);
            try {
                const answer = await real(path, options);
                await new Promise((done) => setTimeout(done, 50));
                return answer;
            } finally { window.flying--; }
        };
        const slider = document.getElementById("l");
        for (let place = 0; place <= 100; place++) {
            slider.value = place;
            slider.dispatchEvent(new Event("input"));
        }
    }""")
    page.wait_for_function("() => window.sent.length === 2 && window.flying === 0")
    assert page.evaluate("window.most") == 1
    first, last = page.evaluate("window.sent")
    assert (first, page.evaluate("Number(new URLSearchParams(location.hash.slice(1)).get('l'))")) == (0, last)
    assert last > 1


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
    expect(page.locator("#answer .status")).to_have_text("Asking …")
    ask(page)
    assert len(order(page)) == 10
    expect(page.get_by_role("alert")).to_be_hidden()


def test_addresses_hold_everything_and_history_goes_back(open_page, service, retriever):
    page = open_page(f"{service}#q={QUESTION}&method=answers&w=0.05&l=2&n=5&hard=1")
    settled(page)
    found = retriever.search(
        QUESTION,
        5,
        candidates=5,
        method="entail-integrated-hard",
        fusion="convex",
        weights={"alpha": 0.95, "entailment_hard": 2.0},
    )
    assert order(page) == ids(found)
    before = page.evaluate("location.hash")
    ask(page, "When was the lighthouse finished?")
    assert page.evaluate("location.hash") != before
    page.go_back()
    expect(page.get_by_label("Your question")).to_have_value(QUESTION)
    page.wait_for_function(
        "wanted => [...document.querySelectorAll('#after > li')].map((item) => item.dataset.id).join() === wanted",
        arg=",".join(ids(found)),
    )


def test_a_filter_may_leave_nothing(open_page, service):
    page = open_page(f'{service}#q={QUESTION}&where={{"page":7}}')
    expect(page.locator("#answer .status")).to_contain_text("No passage was found. The filter may leave none.")
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Only where").fill("{page")
    page.get_by_label("Only where").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The filter is no JSON: {page")


def test_without_an_index_passages_are_pasted(open_page, without_index):
    page = open_page(without_index)
    expect(page.get_by_role("tab", name="Ask")).to_be_hidden()
    expect(page.get_by_label(re.compile("^Passages, one a line"))).to_be_visible()
    example(page)
    first(page, OPENED)
    expect(page.locator("#cost")).to_contain_text("36 calls")
    expect(page.get_by_label("Nothing")).to_be_disabled()


def test_empty_questions_and_no_passages_are_told(open_page, service):
    page = open_page(f"{service}#source=own")
    page.get_by_role("button", name="Ask").click()
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
    expect(first.locator(".match")).to_contain_text("(asked for)")
    expect(first).to_contain_text("distance")
    expect(second).to_contain_text("person")
    page.get_by_role("radio", name="passages", exact=True).check()
    page.get_by_label("as a whole").check()
    page.get_by_role("button", name="Classify").click()
    expect(page.locator("#classes .status")).to_have_text("1 passage classified.")
    expect(page.locator("#classify-cost")).to_contain_text("6 calls")
    assert page.evaluate("location.hash") == "#tab=classify"


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
    assert len(order(page)) == 10


def test_a_filter_that_cannot_be_read_leaves_no_answer_under_another_question(open_page, service):
    page = open_page(service)
    ask(page)
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Only where").fill("{page")
    page.get_by_label("Only where").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The filter is no JSON")
    expect(page.locator("#found.stale")).to_be_visible()  # it answers this question still, and is marked
    expect(page.locator("#answer .status")).to_contain_text("from before")
    page.get_by_label("Your question").fill("When was the lighthouse finished?")
    page.get_by_label("Your question").press("Enter")
    expect(page.locator("#found")).to_be_hidden()
    expect(page).to_have_title(re.compile("^When was the lighthouse"))
    page.get_by_label("Only where").fill("")
    page.get_by_label("Only where").press("Enter")
    settled(page)
    expect(page.locator("#found:not(.stale)")).to_be_visible()


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
        assert kept == [1, 0, False]
        page.reload()
        settled(page)
        expect(box).to_be_hidden()


# ---------------------------------------------------------------- hostile and awkward text


def test_tags_are_text(open_page, service):
    page = open_page(f"{service}#source=own")
    page.get_by_label(re.compile("^Passages, one a line")).fill(f"The bridge {TAGS} was built in 1871.\n{TAGS}")
    ask(page, f"When was the bridge {TAGS} built?")
    text = page.locator("#after .text", has_text="was built in 1871")
    expect(text).to_have_text(f"The bridge {TAGS} was built in 1871.")
    assert text.locator("img, script").count() == 0
    expect(text.locator("mark.exact", has_text="bridge")).to_be_visible()
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
    for summary in page.get_by_text("Why here").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    names = page.locator(".parts th").evaluate_all("cells => cells.map((cell) => cell.getBoundingClientRect().height)")
    assert max(names) < 80, "names of parts break within words"
    page.get_by_role("tab", name="Classify").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


# ---------------------------------------------------------------- who cannot see it, or use a mouse


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page, service, scheme, width):
    page = open_page(service, width, color_scheme=scheme, reduced_motion="reduce", expected="500")
    assert_accessible(page)
    ask(page)
    page.get_by_text("Why here").first.click()
    unfold(page)
    page.get_by_text("How this is reckoned").first.click()
    page.get_by_text("More", exact=True).click()
    assert_accessible(page)
    page.get_by_role("tab", name="Your text").click()
    example(page)
    page.get_by_label("Class match").check()
    settled(page)
    assert_accessible(page)
    page.route("**/api/rerank", lambda route: route.fulfill(status=500, body="{}"))
    page.get_by_role("button", name="Ask").click()
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


def test_all_of_it_with_the_keyboard_alone(open_page, service):
    page = open_page(service)
    page.wait_for_load_state("networkidle")
    keys = page.keyboard
    keys.press("Tab")
    expect(page.get_by_role("tab", name="Ask")).to_be_focused()
    keys.press("ArrowRight")
    expect(page.get_by_role("tab", name="Your text")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Your text")).to_be_visible()
    keys.press("ArrowRight")
    expect(page.get_by_role("tab", name="Classify")).to_be_focused()
    expect(page.get_by_role("tabpanel", name="Classify")).to_be_visible()
    keys.press("Home")
    expect(page.get_by_role("tabpanel", name="Ask")).to_be_visible()
    keys.press("Tab")
    keys.press("Tab")
    expect(page.get_by_label("Your question")).to_be_focused()
    keys.type(QUESTION)
    keys.press("Enter")
    settled(page)
    reach(page, "#after summary")
    keys.press("Enter")
    expect(page.get_by_role("table", name="Parts of the score").first).to_be_visible()
    reach(page, "[name=method]")
    keys.press("ArrowDown")
    expect(page.get_by_label("Class match")).to_be_checked()
    reach(page, "#l")
    keys.press("End")
    expect(page.get_by_role("slider", name="weight of re-ranking")).to_have_attribute(
        "aria-valuetext", re.compile(r"^\d")
    )


def reach(page, selector):
    """Press Tab until something is focused, which must be seen to be."""
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            ring = page.evaluate("""() => [document.activeElement, document.activeElement.closest("label")]
                .some((one) => one && getComputedStyle(one).outlineStyle === "solid")""")
            assert ring, selector
            return
    pytest.fail(f"{selector} is not reached")


def test_a_card_keeps_focus_and_what_is_open_when_it_moves(open_page, service):
    page = open_page(f"{service}#source=own&method=class")
    example(page)
    ask(page, "When was the bridge built?")
    summary = page.locator("#after > li", has_text=OPENED).locator("summary")
    summary.click()
    expect(summary).to_be_focused()
    page.evaluate(
        """() => {
            const slider = document.getElementById("l");
            slider.value = 0;
            slider.dispatchEvent(new Event("input"));
        }"""
    )
    first(page, GRANITE)
    expect(summary).to_be_focused()
    expect(page.locator("#after > li", has_text=OPENED).locator(".why")).to_be_visible()


def test_nothing_moves_where_motion_is_not_wanted(open_page, service):
    page = open_page(f"{service}#source=own&method=class", reduced_motion="reduce")
    example(page)
    ask(page, "When was the bridge built?")
    page.evaluate("() => { Element.prototype.animate = () => { window.moved = true; }; }")
    page.get_by_role("slider", name="weight of re-ranking").press("Home")
    first(page, GRANITE)
    assert page.evaluate("window.moved") is None


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
    expect(page.locator("#controls")).to_be_hidden()
    expect(page.get_by_role("tab", name="Ask")).to_be_hidden()
    expect(page.locator("#after .why").first).to_be_visible()
    expect(page.locator("#strands")).to_be_hidden()  # which breaks between pages would cut off


def test_marks_are_whole_words_and_numbers(open_page, service):
    page = open_page(f"{service}#q=How+many+people+live+there%3F")
    settled(page)
    card = page.locator('#after > li[data-id="town-1"]')
    assert {"8,200", "inhabitants"} <= set(card.locator("mark.near").all_text_contents())
    assert "near people" in card.locator("mark", has_text="inhabitants").get_attribute("title")
