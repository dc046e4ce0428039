"""The documents of hits: links to them, and the files of one folder, which no request leaves."""

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from serving import KEYS, WITH_KEY, service

from semclass import Chunking, HybridRetriever, InputError, Passage, PassageIndex
from semclass.documents.readers import read_passages
from semclass_serve.limits import Settings

SECRET = "the secret of the house"
NAMES = ("a tower.md", "page.html", "manual.pdf", "plan.docx", "deep/notes.txt", "gone.txt", "link.txt", "way/out.txt")
"""Documents that the index names."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with documents, a file that is not indexed, and links that lead out of it."""
    top = tmp_path_factory.mktemp("house")
    folder = top / "documents"
    (folder / "deep").mkdir(parents=True)
    (top / "secret.txt").write_text(SECRET)
    (top / "out.txt").write_text(SECRET)
    for name in NAMES[:5]:
        (folder / name).write_text(f"<script>1</script> {name}")
    (folder / "other.txt").write_text(SECRET)
    (folder / "link.txt").symlink_to(top / "secret.txt")
    (folder / "way").symlink_to(top)
    return folder


@pytest.fixture(scope="module")
def retriever(models):
    passages = [Passage(f"{name}#1", f"The tower {name} is tall.", {"document": name, "page": 3}) for name in NAMES]
    row = Passage("rows.csv:7", "The seventh tower is red.", {"document": "rows.csv:7", "file": "deep/rows.csv"})
    outside = [Passage(name, "The tower is far away.", {"document": name}) for name in ("../secret.txt", "/etc/passwd")]
    return HybridRetriever(
        PassageIndex.build([*passages, row, *outside], passage_encoder=models.passage_encoder), models
    )


@pytest.fixture(scope="module")
def client(models, retriever, folder):
    with service(models, retriever, documents=folder) as client:
        yield client


def links(client, **options):
    """Addresses by document."""
    hits = client.post("/api/search", {"question": "Which tower is tall?", "k": 20}, **options).json()["hits"]
    return {hit["metadata"]["document"]: hit["url"] for hit in hits}


def test_hits_link_to_their_documents(client):
    found = links(client)
    assert found["a tower.md"] == "documents/a%20tower.md"
    assert found["rows.csv:7"] == "documents/deep/rows.csv"
    answer = client.get(f"/{found['a tower.md']}")
    assert (answer.status_code, answer.text) == (200, "<script>1</script> a tower.md")
    assert client.request("HEAD", "/documents/deep/notes.txt").status_code == 200
    assert client.post("/documents/deep/notes.txt", {}).status_code == 405


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a tower.md", "text/plain; charset=utf-8"),
        ("page.html", "text/html; charset=utf-8"),
        ("manual.pdf", "application/pdf"),
        ("plan.docx", "application/octet-stream"),
    ],
)
def test_no_document_runs_anything(client, name, kind):
    headers = client.get(f"/documents/{quote(name)}").headers
    assert headers["content-type"] == kind
    assert headers["x-content-type-options"] == "nosniff"
    assert len(headers.get_list("content-security-policy")) == 1
    if kind.startswith("text"):
        assert headers["content-security-policy"].endswith("; sandbox")
    elif kind == "application/pdf":
        assert "default-src 'none'" in headers["content-security-policy"]
    else:
        assert headers["content-disposition"].startswith("attachment")


@pytest.mark.parametrize(
    "name",
    [
        "other.txt",  # not in the index
        "gone.txt",  # only in the index
        "link.txt",  # a link that leads out
        "way/out.txt",  # below one
        "../secret.txt",
        "..%2fsecret.txt",
        "deep/../../secret.txt",
        "/etc/passwd",
        "%2fetc/passwd",
        "deep",
        "deep/notes.txt%00",
        "x" * 600,
        "",
    ],
)
def test_nothing_outside_the_folder_and_index_is_served(client, name):
    answer = client.get(f"/documents/{name}")
    assert answer.status_code == 404
    assert SECRET not in answer.text


@pytest.fixture(scope="module")
def foreign(models, tmp_path_factory):
    """A folder with files that no reader opens, and an index of rows, objects and lines that name them."""
    folder = tmp_path_factory.mktemp("foreign")
    names = (".env", "deep/.hidden/notes.txt", "key.pem", "plain.txt")
    rows = [
        {"text": f"The tower number {i} is tall and red and old.", "file": n, "document": n}
        for i, n in enumerate(names)
    ]
    (folder / "deep/.hidden").mkdir(parents=True)
    (folder / "rows.csv").write_text("\n".join(["text,file,document", *(",".join(row.values()) for row in rows)]))
    (folder / "rows.json").write_text(json.dumps([{**row, "_id": row["file"]} for row in rows]))
    lines = folder.parent / "lines.jsonl"
    lines.write_text("\n".join(json.dumps({**row, "_id": f"{row['file']}#1"}) for row in rows))
    cut = (replace(p, id=f"cut {p.id}") for p in read_passages(lines, Chunking(by="window")))
    passages = [*read_passages(folder), *read_passages(lines), *cut]
    for name in names:
        (folder / name).write_text(SECRET)
    (folder / "shown.txt").symlink_to(folder / ".env")
    linked = Passage("shown.txt#1", "The tower is a link.", {"document": "shown.txt"})
    index = PassageIndex.build([*passages, linked], passage_encoder=models.passage_encoder)
    return folder, names, HybridRetriever(index, models)


def test_names_that_others_wrote_open_nothing(models, foreign):
    folder, names, retriever = foreign
    with service(models, retriever, documents=folder, keys=KEYS) as client:
        hits = client.post("/api/search", {"question": "Which tower is tall?", "k": 20}, headers=WITH_KEY).json()[
            "hits"
        ]
        linked = {hit["url"].partition("?")[0] for hit in hits if hit["url"]}
        assert linked == {f"documents/{name}" for name in ("rows.csv", "rows.json", "lines.jsonl", "shown.txt")}
        assert client.get("/documents/rows.csv", headers=WITH_KEY).status_code == 200
        for name in (*names, "shown.txt"):
            assert client.get(f"/documents/{name}", headers=WITH_KEY).status_code == 404


@pytest.mark.parametrize(
    ("asked", "status"), [("bytes=0-3", 206), ("bytes=9999-", 416), ("lines=x", 400), ("bytes=b", 400)]
)
def test_ranges_are_served_or_refused_as_json(client, asked, status):
    answer = client.get("/documents/deep/notes.txt", headers={"Range": asked})
    assert answer.status_code == status
    assert status == 206 or answer.json()["error_type"] == "range"
    assert status != 416 or not answer.headers["content-range"].endswith("*/0")


def test_without_a_folder_there_are_no_links(models, retriever):
    with service(models, retriever) as client:
        assert set(links(client).values()) == {None}
        assert client.get("/documents/page.html").status_code == 404


def test_a_link_opens_its_own_document_without_a_key(models, retriever, folder):
    with service(models, retriever, documents=folder, keys=KEYS) as client:
        found = links(client, headers=WITH_KEY)
        address, _, signed = found["page.html"].partition("?")
        assert client.get(f"/{found['a tower.md']}").status_code == 200
        assert client.get(f"/{address}?{signed}").status_code == 200
        for other in (address, f"{address}?pass=", f"documents/manual.pdf?{signed}", f"api/info?{signed}"):
            assert client.get(f"/{other}").status_code == 401
        assert client.post(f"/{address}?{signed}", {}).status_code == 401


def test_an_address_can_be_given_in_place_of_a_folder(models, retriever):
    address = "https://wiki.example.org/{document}?id={_id}&of={author}#page={page}"
    with service(models, retriever, documents=address) as client:
        found = links(client)["a tower.md"]
        assert found == "https://wiki.example.org/a%20tower.md?id=a%20tower.md%231&of=#page=3"


@pytest.mark.parametrize("place", ["javascript:{document}", "https://{document}/", "https://wiki.example.org/", ""])
def test_an_address_has_a_host_and_a_field(place):
    with pytest.raises(InputError, match="documents is"):
        Settings(documents=place)
    with pytest.raises(InputError, match="not a folder"):
        replace(Settings(), documents=Path("nowhere") / (place or "x"))
