"""Strands join the places of a passage in both orders, whatever was changed last and however."""

import random

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("playwright")

from browsing import QUESTION, marks, settled, unfold

pytest_plugins = ("browsing",)
pytestmark = marks

QUESTIONS = [
    QUESTION,
    "When was the lighthouse finished?",
    "How many people live there?",
    "What is the granite bridge?",
]

# Ends of each strand and the passage's numbers in both orders, two frames after the last change: by then observers of sizes
# have run, while cards may still slide. Where a card slides to is told by its place less the way that it still has to go.
FAR = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const rest = (node) => new DOMMatrix(getComputedStyle(node).transform).m42;
    const number = (list, id) => {
        const item = document.querySelector(`#${list} > [data-id="${CSS.escape(id)}"]`);
        const box = item.querySelector(".rank").getBoundingClientRect();
        return { x: list === "before" ? box.right : box.left, y: box.y + box.height / 2 - rest(item) };
    };
    const shown = [...document.querySelectorAll("#after > li")].map((item) => item.dataset.id);
    const seen = [];
    const far = [...document.querySelectorAll("#strands path")].map((path) => {
        const { id } = path.closest("[data-id]").dataset;
        seen.push(id);
        const look = getComputedStyle(path);
        if (look.stroke === "none" || parseFloat(look.strokeWidth) < 1) return `${id} is not drawn`;
        const end = (at) => path.getPointAtLength(at).matrixTransform(path.getScreenCTM());
        const ends = [[end(0), number("before", id), "before"], [end(path.getTotalLength()), number("after", id), "after"]];
        return ends.filter(([end, { x, y }]) => Math.abs(end.y - y) > 1 || Math.abs(end.x - x) > 4)
            .map(([end, { x, y }, list]) => `${id} ${list}: ${end.x - x}, ${end.y - y}`);
    });
    const missing = seen.sort().join() === shown.sort().join() ? [] : [`strands of ${seen}, cards of ${shown}`];
    done([...far.flat(), ...missing]);
})))"""

METHODS = ["Learned", "Class match", "Answers", "Nothing"]
KEYS = ["ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home", "End"]


def by_mouse(page, chance):
    what = chance.choice(["method", "method", "method", "slider", "slider", "why", "hard", "question"])
    if what == "method":
        page.get_by_role("radio", name=chance.choice(METHODS)).click()
    elif what == "slider":
        slider = chance.choice(["#w", "#l"])
        if page.locator(slider).is_enabled():
            box = page.locator(slider).bounding_box()
            page.locator(slider).click(position={"x": chance.uniform(0, box["width"]), "y": box["height"] / 2})
    elif what == "why":
        page.locator("#after summary").nth(chance.randrange(5)).click()
    elif what == "hard" and page.locator("#hard").is_enabled():
        page.locator("#hard").click()
    else:
        page.get_by_label("Your question").fill(chance.choice(QUESTIONS))
        page.get_by_role("button", name="Ask", exact=True).click()
    return what


def by_keyboard(page, chance):
    what = chance.choice(["method", "method", "slider", "slider", "slider", "number", "why", "question"])
    times = chance.randint(1, 3)  # some changes come before the cards have come to rest
    if what == "method":
        page.locator("[name=method]:checked").focus()
        for _ in range(times):
            page.keyboard.press(chance.choice(["ArrowDown", "ArrowUp"]))
    elif what == "slider":
        slider = page.locator(chance.choice(["#w", "#l"]))
        if slider.is_enabled():
            slider.focus()
        for _ in range(times):
            page.keyboard.press(chance.choice(KEYS))
    elif what == "number":
        page.locator("#n").focus()
        page.keyboard.press(chance.choice(["ArrowDown", "ArrowUp"]))
    elif what == "why":
        page.locator("#after summary").nth(chance.randrange(5)).focus()
        page.keyboard.press("Enter")
    else:
        page.get_by_label("Your question").fill(chance.choice(QUESTIONS))
        page.keyboard.press("Enter")
    return f"{what} {times}"


def test_strands_follow_another_width_and_larger_text(open_page, service):
    page = open_page(f"{service}#q={QUESTION}&method=class")
    settled(page)
    for width in (390, 820, 1440, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(FAR) == []
    for size in ("125%", "200%", "80%"):
        page.evaluate("size => { document.documentElement.style.fontSize = size; }", size)
        assert page.evaluate(FAR) == []
    page.evaluate("() => { document.body.style.lineHeight = 2.2; document.body.style.fontFamily = 'monospace'; }")
    assert page.evaluate(FAR) == []


@pytest.mark.parametrize(
    ("change", "width", "motion"),
    [(by_mouse, 1280, "no-preference"), (by_mouse, 390, "reduce"), (by_keyboard, 1280, "reduce")],
)
def test_every_strand_ends_at_its_passage_after_each_of_forty_changes(open_page, service, width, change, motion):
    page = open_page(f"{service}#q={QUESTION}&method=class", width, reduced_motion=motion)
    settled(page)
    unfold(page)
    page.get_by_text("More", exact=True).click()
    chance = random.Random(0)
    wrong = {}
    for turn in range(40):
        done = change(page, chance)
        settled(page)
        far = page.evaluate(FAR)
        if far:
            wrong[f"{turn}: {done}"] = far
    assert wrong == {}
