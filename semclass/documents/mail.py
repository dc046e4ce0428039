"""Messages and mailboxes: what a message itself says, without what it quotes, signatures and disclaimers."""

from __future__ import annotations

import mailbox
import re
from collections.abc import Iterator
from contextlib import suppress
from email import message_from_binary_file, message_from_bytes, policy
from email.message import EmailMessage
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path
from typing import Any, cast

from semclass.core.errors import import_extra
from semclass.documents.limits import check_size, check_tags
from semclass.documents.markup import html_to_markdown
from semclass.documents.records import Content, Record

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


def read_eml(path: Path) -> Content:
    """Read a message as a record."""
    check_size(path)
    message = message_from_bytes(path.read_bytes(), policy=policy.default)
    if not any(name in message for name in ("From", "Date", "Subject", "Message-ID")):
        raise ValueError("it has no header of a message")
    return Content(records=list(_records(message, "")))


def read_mbox(path: Path) -> Content:
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
    return Content(records=records)


def own_text(text: str) -> str:
    """Give what a message itself says: without quoted replies, signature and disclaimers.

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
    """Give the record of a message, unless it has neither text nor subject."""
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
    """Give the first id of a header; of references it names the message that began the thread."""
    return next(iter(_ids(message, name)), "")


def _ids(message: EmailMessage, name: str) -> list[str]:
    return re.findall(r"[^\s<>]+", _header(message, name))


def _body(message: EmailMessage) -> tuple[str, bool]:
    """Give the text of a message, and whether it is Markdown, which is made of HTML if there is no plain text."""
    plain, html = (message.get_body([kind]) for kind in ("plain", "html"))
    text = _decoded(plain) if plain is not None else ""
    if text.strip() or html is None:
        return text, False
    return html_to_markdown(_without_quotes(_decoded(html))), True


def _decoded(part: Any) -> str:
    content: bytes = part.get_payload(decode=True) or b""
    with suppress(LookupError, UnicodeDecodeError):
        return content.decode(part.get_content_charset("utf-8"))
    with suppress(UnicodeDecodeError):
        return content.decode()
    return content.decode("cp1252", "replace")


def _without_quotes(page: str) -> bytes:
    html = import_extra("lxml.html", "documents")
    content = page.encode()
    check_tags(Path("the message"), content.count(b"<"))
    if not content.strip():
        return b""
    root = html.document_fromstring(content, parser=html.HTMLParser(encoding="utf-8"), ensure_head_body=True)
    for element in [found for path in _HTML_QUOTES for found in root.xpath(path)]:
        element.drop_tree() if element.getparent() is not None else None
    return cast("bytes", html.tostring(root, encoding="utf-8"))
