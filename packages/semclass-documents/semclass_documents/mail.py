"""Messages and mailboxes: what a message itself says, without what it quotes, signatures and disclaimers."""

from __future__ import annotations

import mailbox
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from email import message_from_binary_file, message_from_bytes, policy
from email.message import EmailMessage
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path
from typing import Any, cast

from lxml import html

from semclass import Chunking
from semclass.plugins import Document, Record, check_size
from semclass_documents.html import html_to_markdown
from semclass_documents.limits import check_tags

_QUOTED = re.compile(r"^[ \t]*>.*\n?", re.MULTILINE)
_ATTRIBUTION = re.compile(
    r"^[ \t]*(?:On|Am)\b[^\n]*(?:\n[^\n]+){0,2}?\b(?:wrote|schrieb[^\n:]{0,200}):[ \t]*$(?P<quote>(?:\s*^[ \t]*>)?)",
    re.MULTILINE,
)
_WHEN_OR_WHO = re.compile(r"[0-9@]")
_ORIGINAL = re.compile(
    r"^[ \t]*-{2,}[ \t]*(?:Original Message|Original Appointment|Ursprüngliche Nachricht)[ \t]*-{2,}[ \t]*$"
    r"|^[ \t*]*(?:From|Von):.*\n(?:[ \t*]*(?:Sent|Date|To|Cc|Subject|Gesendet|Datum|An|Betreff):.*\n){2}",
    re.MULTILINE,
)
_SIGNATURE = re.compile(r"^\\?(?:--|—)[ \t]*$", re.MULTILINE)
_DISCLAIMER = re.compile(
    r"confidentiality (?:notice|note)|\bnot the intended (?:recipient|addressee)"
    r"|\bthis (?:e-?mail|message|communication)\b.{0,120}\b(?:confidential|privileged|intended (?:only|solely))"
    r"|\bdiese (?:e-?mail|nachricht)\b.{0,120}\bvertraulich"
    r"|\bconsider the environment before printing|^sent from my \w+|^get outlook for \w+",
    re.IGNORECASE | re.DOTALL,
)
_HTML_QUOTES = (
    "//blockquote[@type='cite']",
    "//*[contains(concat(' ', normalize-space(@class), ' '), ' gmail_quote ')]",
    "//*[contains(concat(' ', normalize-space(@class), ' '), ' gmail_signature ')]",
    "//*[contains(concat(' ', normalize-space(@class), ' '), ' moz-cite-prefix ')]",
    "//*[contains(concat(' ', normalize-space(@class), ' '), ' moz-signature ')]",
    "//*[@id='divRplyFwdMsg' or @id='divRplyFwdMsg']/following-sibling::*",
    "//*[@id='divRplyFwdMsg']",
)
"""Where programs put what they quote, and signatures."""


def read_eml(path: Path, _: Chunking) -> Document:
    """Read a message as a record."""
    check_size(path)
    message = message_from_bytes(path.read_bytes(), policy=policy.default)
    if not any(name in message for name in ("From", "Date", "Subject", "Message-ID")):
        raise ValueError("it has no header of a message")
    return Document(records=list(_records(message, "")))


def read_mbox(path: Path, _: Chunking) -> Document:
    """Read each message of a mailbox as a record, named by its Message-ID, or else by its number."""
    check_size(path)
    with path.open("rb") as file:
        if file.read(5) not in (b"From ", b""):
            raise ValueError("it does not begin with `From `")
    read = cast("Any", lambda file: message_from_binary_file(file, policy=policy.default))
    box: Any = mailbox.mbox(path, factory=read, create=False)
    try:
        seen = set[str]()
        records: list[Record] = []
        for number, key in enumerate(box.keys(), 1):
            name = _message_id(message := box[key], "Message-ID")
            records += _records(message, f"#{number}" if not name or name in seen else f":{name}", from_lines=True)
            seen.add(name)
    finally:
        box.close()
    return Document(records=records)


_NO_DATE = datetime.min.replace(tzinfo=timezone.utc)
_REPLY = re.compile(r"^\s*(?:(?:re|aw|antw|sv|fwd?|wg)(?:\[\d+\])?\s*:\s*)+", re.IGNORECASE)


def join_threads(documents: Iterable[tuple[str, Document]]) -> Iterator[tuple[str, Document]]:
    """Pass documents on, and yield messages last, as those of a thread may be in several files: a document per thread."""
    messages: list[tuple[str, Record]] = []
    for name, document in documents:
        messages += [(name, record) for record in document.records if record.links is not None]
        yield name, document._replace(records=[record for record in document.records if record.links is None])
    for thread in in_threads(messages):
        name, first = thread[0]
        shared = {"thread": first.metadata["thread"]} if "thread" in first.metadata else {}
        records = [record._replace(file=file, metadata={**record.metadata, **shared}) for file, record in thread]
        yield name, Document(records=records, joined=True, size=sum(len(record.text) for record in records))


def in_threads(messages: Sequence[tuple[str, Record]]) -> list[list[tuple[str, Record]]]:
    """Group messages, which come with the names of their files, by thread; each thread is in the order of time.

    Messages belong together if one names another, or both name a third. A reply that names none belongs to the last
    message before it with its subject. A message that is there twice counts once.
    """
    threads = list(range(len(messages)))  # of each message another one of its thread, or itself
    by_id: dict[str, int] = {}
    by_subject: dict[str, int] = {}

    def first(place: int) -> int:
        while threads[place] != place:
            threads[place] = place = threads[threads[place]]
        return place

    in_time = sorted(range(len(messages)), key=lambda place: _time(messages[place][1]))
    for place in in_time:
        own, *others = messages[place][1].links or ("",)
        for name in filter(None, (own, *others)):
            threads[first(place)] = first(by_id.setdefault(name, place))
        title = str(messages[place][1].metadata.get("title", "")).casefold()
        subject = _REPLY.sub("", title, count=1) if _REPLY.match(title) else title
        if subject != title and not others:
            threads[first(place)] = first(by_subject.get(subject, place))
        if subject:
            by_subject[subject] = place
    found: dict[int, list[tuple[str, Record]]] = {first(place): [] for place in range(len(messages))}
    seen = set[tuple[str, str]]()
    for place in in_time:
        own, text = (messages[place][1].links or ("",))[0], messages[place][1].text
        if not own or (own, text) not in seen:
            found[first(place)].append(messages[place])
        seen.add((own, text))
    return [thread for thread in found.values() if thread]


def _time(message: Record) -> datetime:
    """When a message was sent, in UTC where it does not say; the first of all times for one without a date."""
    date = message.metadata.get("date")
    time = datetime.fromisoformat(date) if isinstance(date, str) else _NO_DATE
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def own_text(text: str) -> str:
    """Return what a message itself says: without quoted replies, signature and disclaimers.

    What is left of a message that only passes another one on is that message.
    """
    own = text.replace("\r\n", "\n").replace("\r", "\n")
    if (original := _ORIGINAL.search(own)) is not None:
        own = own[: original.start()].rstrip("\\_ \n")  # some programs rule a line above it
    attributions = (found for found in _ATTRIBUTION.finditer(own) if _WHEN_OR_WHO.search(found[0]))
    if (attribution := next(attributions, None)) is not None:
        # replies may stand between or below lines that are marked as quoted
        own = own[: attribution.start()] + (own[attribution.end() - 1 :] if attribution["quote"] else "")
    own = _QUOTED.sub("", own)
    if (signature := _SIGNATURE.search(own)) is not None:
        own = own[: signature.start()]
    parts = re.split(r"\n\s*\n", own.strip())
    while parts and _DISCLAIMER.search(parts[-1].strip("*_ \n")):
        parts.pop()
    return "\n\n".join(parts).strip() or text.strip()


def _records(message: EmailMessage, name: str, *, from_lines: bool = False) -> Iterator[Record]:
    """Return the record of a message, unless it has neither text nor subject."""
    text, markdown = _body(message)
    text = re.sub(r"^>(>*From )", r"\1", text, flags=re.MULTILINE) if from_lines else text
    subject = _header(message, "Subject")
    if text := own_text(text) or subject:
        links = [_message_id(message, "Message-ID"), *_ids(message, "References"), *_ids(message, "In-Reply-To")]
        yield Record(name, text, dict(_metadata(message, subject)), is_row=False, markdown=markdown, links=links)


def _metadata(message: EmailMessage, subject: str) -> Iterator[tuple[str, Any]]:
    if subject:
        yield "title", subject
    for name, address in _addresses(message, "From")[:1]:
        yield "sender", address
        if name:
            yield "sender_name", name
    if receivers := [address for _, address in [*_addresses(message, "To"), *_addresses(message, "Cc")]]:
        yield "to", receivers
    with suppress(ValueError):  # no date, or one that no rule describes
        yield "date", parsedate_to_datetime(_header(message, "Date")).isoformat()
    ids = (_message_id(message, name) for name in ("References", "In-Reply-To", "Message-ID"))
    if thread := next(filter(None, ids), ""):
        yield "thread", thread


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message[name] or "").split())
    except Exception:  # noqa: BLE001 - the parser of headers raises anything for broken ones
        return ""


def _addresses(message: EmailMessage, name: str) -> list[tuple[str, str]]:
    found = getaddresses([_header(message, name)])
    return [(shown.strip(), address.lower()) for shown, address in found if "@" in address]


def _message_id(message: EmailMessage, name: str) -> str:
    """Return the first id of a header; of references it names the message that began the thread."""
    return next(iter(_ids(message, name)), "")


def _ids(message: EmailMessage, name: str) -> list[str]:
    return re.findall(r"[^\s<>]+", _header(message, name))


def _body(message: EmailMessage) -> tuple[str, bool]:
    """Return the text of a message, and whether it is Markdown, which is made of HTML if there is no plain text."""
    plain, page = (message.get_body([kind]) for kind in ("plain", "html"))
    text = _decoded(plain) if plain is not None else ""
    if text.strip() or page is None:
        return text, False
    return html_to_markdown(_without_quotes(_decoded(page))), True


def _decoded(part: Any) -> str:
    content: bytes = part.get_payload(decode=True) or b""
    with suppress(LookupError, UnicodeDecodeError):
        return content.decode(part.get_content_charset("utf-8"))
    with suppress(UnicodeDecodeError):
        return content.decode()
    return content.decode("cp1252", "replace")


def _without_quotes(page: str) -> bytes:
    content = page.encode()
    check_tags(Path("the message"), content.count(b"<"))
    if not content.strip():
        return b""
    root = html.document_fromstring(content, parser=html.HTMLParser(encoding="utf-8"), ensure_head_body=True)
    for element in [found for path in _HTML_QUOTES for found in root.xpath(path)]:
        element.drop_tree() if element.getparent() is not None else None
    return cast("bytes", html.tostring(root, encoding="utf-8"))
