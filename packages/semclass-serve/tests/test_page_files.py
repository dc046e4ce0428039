"""The page as files: served as they should be, small, and of nothing that comes from elsewhere."""

import re
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from semclass_serve import static
from semclass_serve.app import create_app
from semclass_serve.engine import Engine
from semclass_serve.settings import Settings

FOLDER = Path(static.__file__).parent / "page"


@pytest.fixture(scope="module")
def client(models):
    settings = Settings()
    with TestClient(create_app(Engine(models, None, settings), settings)) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/text.js", "text/javascript; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
    ],
)
def test_each_file_is_served_with_its_type_a_tag_and_a_policy(client, path, kind):
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == kind
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    again = client.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(path, headers={"If-None-Match": '"older"'}).status_code == 200
    head = client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["etag"] == answer.headers["etag"]


def test_nothing_else_of_the_folder_is_served(client):
    assert {path.lstrip("/") or "index.html" for path in static.PATHS} == {path.name for path in FOLDER.iterdir()}
    assert client.get("/index.html").status_code == 404
    assert client.get("/../static.py").status_code == 404


def test_the_page_is_no_part_of_the_api(client):
    assert not set(client.get("/openapi.json").json()["paths"]) & (set(static.PATHS) - {"/"})


def test_files_are_small_and_name_nothing_from_elsewhere():
    texts = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert sum(len(text.encode()) for text in texts.values()) < 60_000
    for name, text in texts.items():
        assert set(re.findall(r"https?://[^\s\"'`)]+", text)) <= {"http://www.w3.org/2000/svg"}, name
    html, script = texts["index.html"], texts["page.js"] + texts["text.js"]
    assert not re.search(r"\sstyle=|\son\w+=|<script(?! type=\"module\" src=)|<style", html)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", script)
