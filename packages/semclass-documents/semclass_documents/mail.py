"""Reads messages and mailboxes, without quoted messages, signatures and disclaimers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import getaddresses, parsedate_to_datetime
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, cast

from lxml import html

from semclass import Chunking
from semclass.plugins import Document, Record, paragraph
from semclass_documents.html import html_to_markdown
from semclass_documents.limits import check_tags

_SEPARATOR = re.compile(
    rb"From \S.{,200}\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +(?:\d+ +)?[A-Z][a-z]{2}\b(?=.*\d:\d\d)(?=.*\b\d{4}\b)"
)
"""Begins a message of a mailbox, below an empty line, with whom it is from and when it came."""

_QUOTED = re.compile(r"(?:^[ \t]*>.*\n?)+", re.MULTILINE)
_COMPARED = re.compile(r"(?:[ \t]*>=?[ \t]?\d.*\n?)+")
"""Lines that begin with a number that something exceeds."""

_WRITTEN = re.compile(
    r"^[ \t]*(?:On|Am)\b[^\n]*(?:\n(?![ \t]*>)[^\n]+){0,2}?\b(?:wrote|schrieb[^\n:]{0,200}):[ \t]*\n\s*?(?=^[ \t]*>)",
    re.MULTILINE,
)
_WHEN_OR_WHO = re.compile(
    r"@|\d[.:/-]\d|\b\d{4}\b|\b(?:jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])", re.IGNORECASE
)
_HEADERS = re.compile(
    r"(?P<mark>^[ \t]*-{2,}[ \t]*(?:Original Message|Original Appointment|Ursprüngliche Nachricht)[ \t]*-{2,}[ \t]*\n\s*?)?"
    r"^[ \t*]*(?:From|Von):(?P<sender>.*)\n"
    r"(?P<more>(?:[ \t*]*(?:Sent|Date|To|Cc|Subject|Gesendet|Datum|An|Betreff):.*(?:\n|\Z)){1,6})",
    re.MULTILINE,
)
_SENT = re.compile(r"^[ \t*]*(?:Sent|Date|Gesendet|Datum):(?P<year>.*\b\d{4}\b)?", re.MULTILINE)
_ABOUT = re.compile(r"^[ \t*]*(?:Subject|Betreff):", re.MULTILINE)
_FORWARDED = re.compile(
    r"^[ \t*\\-]*(?:(?:Begin )?Forwarded message|(?:Anfang der )?Weitergeleitete[nr]? (?:E-?Mail|Nachricht))\b[ \t:*-]*$",
    re.MULTILINE | re.IGNORECASE,
)
_FORWARD = re.compile(r"\s*(?:fwd?|wg)(?:\[\d+\])?\s*:", re.IGNORECASE)
_SIGNATURE = re.compile(r"^\\?--(?P<space> ?)[ \t]*$", re.MULTILINE)
_CONTACT = re.compile(r"@|www\.|https?:|\d[\d /-]{5,}")
SENTENCE_WORDS = 4
"""Least number of words of a sentence. A signature contains no sentence."""

SIGNATURE_LINES = 10
"""Most lines of a signature."""

_LEGAL = [
    re.compile(words, re.IGNORECASE)
    for words in (
        r"confidential|privileged|vertraulich",
        r"intended|addressee|recipient|bestimmt|adressat|empfänger",
        r"\b(?:this|the|diese[rs]?) (?:e-?mail|message|communication|transmission|nachricht)\b|attachments?\b|\banhänge",
        r"\b(?:delete|destroy|lösch|vernicht)|in error\b|irrtümlich|notify the sender",
        r"unauthori[sz]ed|prohibited|disclos|unbefugt|nicht gestattet",
        r"^\W*(?:confidentiality (?:notice|note)|disclaimer)\s*[:.–-]|\bif you (?:are not|have received)|wenn sie nicht",
    )
]
LEGAL_WORDS, LEGAL_IN_ALL = 3, 4
"""Least number of these patterns in a paragraph of a disclaimer, and in the whole disclaimer."""

_PROGRAM = re.compile(
    r"\W*(?:(?:please )?consider the environment before printing this (?:e-?mail|message)|"
    r"sent from my \w+(?: \w+){,2}|get outlook for \w+(?:\W*https?:\S*)?)\W*",
    re.IGNORECASE,
)
_STUB = re.compile(r"\bHTML\b|\b(?:web)?browser\b|\bmail(?:[- ]?(?:client|program|reader|viewer|app))", re.IGNORECASE)
STUB_WORDS = 100
"""Most words of a plain text that is only a note that the message is HTML."""

_UNDECLARED = {code: bytes([code]).decode("cp1252", "ignore") or None for code in range(0x80, 0xA0)}
"""Letters of windows-1252 in place of control characters: much mail that declares latin-1 is windows-1252."""

_HTML_QUOTES = ("gmail_quote", "moz-cite-prefix")
_HTML_REPLIES = ("//*[@id='divRplyFwdMsg']/following-sibling::*", "//*[@id='divRplyFwdMsg']")
_CITED = re.compile(r"""<blockquote[^<>]{,200}\stype=["']?cite""", re.IGNORECASE)
_HTML_SIGNATURES = ("gmail_signature", "moz-signature")
"""Classes of quotations and of signatures in HTML, and paths of quotations in replies."""


def read_eml(path: Path, _: Chunking) -> Document:
    """Read a message as a record."""
    message = message_from_bytes(path.read_bytes(), policy=policy.default)
    if not any(name in message for name in ("From", "Date", "Subject", "Message-ID")):
        raise ValueError("it has no header of a message")
    return Document(records=list(_records(message, "")))


def read_mbox(path: Path, _: Chunking) -> Document:
    """Read each message of a mailbox as a record, named by its Message-ID, or else by its number."""
    with path.open("rb") as file:
        if file.read(5) not in (b"From ", b""):
            raise ValueError("it does not begin with `From `")
        file.seek(0)
        seen = set[str]()
        records: list[Record] = []
        for number, content in enumerate(_messages(file), 1):
            message = message_from_bytes(content, policy=policy.default)
            name = _message_id(message, "Message-ID")
            end = f"#{number}" if not name or name in seen else f":{name}"
            records += _records(message, end, {"message": number})
            seen.add(name)
    return Document(records=records)


def _messages(file: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the messages of a mailbox without the lines that separate them."""
    held: list[bytes] = []
    blank = True
    for line in file:
        if blank and held and _SEPARATOR.match(line):
            yield b"".join(held[1:])
            held = []
        held.append(line[1:] if line[:1] == b">" and line.lstrip(b">").startswith(b"From ") else line)
        blank = not line.strip()
    if held:
        yield b"".join(held[1:])


_NO_DATE = datetime.min.replace(tzinfo=timezone.utc)
_REPLY = re.compile(r"^\s*(?:(?:re|aw|antw|sv|fwd?|wg)(?:\[\d+\])?\s*:\s*)+", re.IGNORECASE)


def join_threads(documents: Iterable[tuple[str, Document]]) -> Iterator[tuple[str, Document]]:
    """Yield documents, then one document per thread of messages, because a thread may be in several files."""
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
    """Group messages by thread, in the order of time. Each message comes with the name of its file.

    Messages belong together if one names the other in its headers, or both name the same message. A reply that names
    no message belongs to the last earlier message with the same subject. A message that occurs twice counts once.
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
    """Return when a message was sent: in UTC if it names no time zone, and the earliest time if it has no date."""
    date = message.metadata.get("date")
    time = datetime.fromisoformat(date) if isinstance(date, str) else _NO_DATE
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def own_text(text: str, *, reply: bool = True) -> str:
    """Return the text of a message without quoted messages, signature and disclaimers.

    A message below a second header is a quotation if `reply` is true, and is removed. Otherwise it is forwarded, and
    is kept. Lines with > are a quotation in a reply, or below a line that names their author. If a message consists of
    quotations alone, it is returned whole.
    """
    own = text.replace("\r\n", "\n").replace("\r", "\n")
    header = next((found.start() for found in _HEADERS.finditer(own) if _is_header(found)), len(own))
    marked = _FORWARDED.search(own)
    passed = len(own) if marked is None else marked.start()
    if reply and header < passed:
        own, rest = own[:header].rstrip("\\_ \n"), ""  # some programs rule a line above it
    else:
        own, rest = own[: min(header, passed)], own[min(header, passed) :]
    cited = _WRITTEN.sub(lambda found: "" if _WHEN_OR_WHO.search(found[0]) else found[0], own)
    if reply or cited != own:  # answers may stand between or below lines that are marked as quoted
        own = _QUOTED.sub(lambda lines: lines[0] if _COMPARED.fullmatch(lines[0]) else "", cited)
    parts = re.split(r"\n\s*\n", f"{_without_signature(own)}{rest}".strip())
    last = list(takewhile(lambda part: _PROGRAM.fullmatch(part) or _legal_words(part) >= LEGAL_WORDS, parts[::-1]))[
        ::-1
    ]
    is_legal = _legal_words("\n".join(last)) >= LEGAL_IN_ALL
    parts = [*parts[: len(parts) - len(last)], *(part for part in last if not (is_legal or _PROGRAM.fullmatch(part)))]
    return "\n\n".join(parts).strip() or text.strip()


def _is_header(found: re.Match[str]) -> bool:
    """Whether lines are the header of a quoted message, with sender, date and subject."""
    sent, about = _SENT.search(found["more"]), _ABOUT.search(found["more"])
    is_sender = "@" in found[0] or (sent is not None and sent["year"] and any(map(str.isalpha, found["sender"])))
    return bool(found["mark"] or (sent and about and is_sender))


def _legal_words(text: str) -> int:
    """Count the patterns of disclaimers that occur in a text."""
    return sum(bool(words.search(text)) for words in _LEGAL)


def _without_signature(text: str) -> str:
    """Cut off a signature: a few lines below dashes, without a sentence, but with an address or a number."""
    dashes = list(_SIGNATURE.finditer(text))
    if not dashes:
        return text
    below = text[dashes[-1].end() :].strip().split("\n")
    said = any(line.rstrip().endswith((".", "!", "?", ":")) and len(line.split()) >= SENTENCE_WORDS for line in below)
    marked = len(dashes) == 1 and bool(dashes[0]["space"])  # as the standard has it
    is_one = len(below) <= SIGNATURE_LINES and not said and (marked or any(map(_CONTACT.search, below)))
    return text[: dashes[-1].start()] + "\n\n" if is_one else text


def _records(message: EmailMessage, name: str, place: Mapping[str, int] | None = None) -> Iterator[Record]:
    """Yield the record of a message, unless it has neither text nor subject. `place` is its place in a mailbox."""
    subject = _header(message, "Subject")
    links = [_message_id(message, "Message-ID"), *_ids(message, "References"), *_ids(message, "In-Reply-To")]
    parts = list(_parts(message, reply=not _FORWARD.match(subject) and (len(links) > 1 or bool(_REPLY.match(subject)))))
    markdown = any(is_page for _, is_page in parts)
    texts = (paragraph(text) if markdown and not is_page else text for text, is_page in parts)
    if text := "\n\n".join(texts) or subject:
        metadata = {**dict(_metadata(message, subject)), **(place or {})}
        yield Record(name, text, metadata, is_row=False, markdown=markdown, links=links)


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
        return " ".join(str(message[name] or "").translate(_UNDECLARED).split())
    except Exception:  # noqa: BLE001 - the parser of headers raises anything for broken ones
        return ""


def _addresses(message: EmailMessage, name: str) -> list[tuple[str, str]]:
    found = getaddresses([_header(message, name)])
    return [(shown.strip(), address.lower()) for shown, address in found if "@" in address]


def _message_id(message: EmailMessage, name: str) -> str:
    """Return the first id in a header. In `References`, this is the message that began the thread."""
    return next(iter(_ids(message, name)), "")


def _ids(message: EmailMessage, name: str) -> list[str]:
    return re.findall(r"[^\s<>]+", _header(message, name))


def _parts(message: EmailMessage, *, reply: bool) -> Iterator[tuple[str, bool]]:
    """Yield the texts of a message without attachments, and for each text whether it is Markdown made from HTML."""
    kind = message.get_content_type()
    if kind == "message/rfc822":
        inner = cast("list[EmailMessage]", message.get_payload())[0]
        yield "\n".join(f"{name}: {_header(inner, name)}" for name in ("From", "Date", "Subject") if inner[name]), False
        yield from _parts(inner, reply=False)
    elif message.is_multipart():
        parts = (list(_parts(cast("EmailMessage", part), reply=reply)) for part in message.iter_parts())
        yield from _best(parts) if kind == "multipart/alternative" else chain.from_iterable(parts)
    elif kind == "text/html" and message.get_content_disposition() != "attachment":
        page = _decoded(message)
        text = html_to_markdown(_without_quotes(page, reply=reply))
        if text.strip():
            yield own_text(text, reply=reply or bool(_CITED.search(page))), True
    elif kind.startswith(("text/plain", "multipart/")) and message.get_content_disposition() != "attachment":
        text = _decoded(message)
        if text.strip():
            yield own_text(text, reply=reply), False


def _best(ways: Iterable[Sequence[tuple[str, bool]]]) -> Sequence[tuple[str, bool]]:
    """Choose the plain version of a message, unless it only notes that the message is HTML. In doubt, return both."""
    plain: Sequence[tuple[str, bool]] = ()
    words: list[str] = []
    for way in filter(None, ways):
        own = re.findall(r"\w+", " ".join(text for text, _ in way).casefold())
        if not any(is_page for _, is_page in way):
            plain, words = way, own
        elif not plain or 2 * len({*own} & {*words}) < len({*own}):
            return way if len(words) < len(own) or _STUB.search(plain[0][0]) else [*plain, *way]
        if len(words) > STUB_WORDS:
            break
    return plain


def _decoded(part: Any) -> str:
    content: bytes = part.get_payload(decode=True) or b""
    for charset in (part.get_content_charset("utf-8"), "utf-8"):
        with suppress(LookupError, UnicodeDecodeError):
            return content.decode(charset).translate(_UNDECLARED)
    return content.decode("cp1252", "replace")


def _without_quotes(page: str, *, reply: bool) -> bytes:
    content = page.encode()
    check_tags(Path("the message"), content.count(b"<"))
    if not content.strip():
        return b""
    root = html.document_fromstring(content, parser=html.HTMLParser(encoding="utf-8"), ensure_head_body=True)
    quotes = _HTML_QUOTES if not _FORWARDED.search("\n".join(root.itertext())) else ()
    marked = [*map(root.find_class, (*quotes, *_HTML_SIGNATURES)), *map(root.xpath, _HTML_REPLIES if reply else ())]
    for element in chain.from_iterable(marked):
        element.drop_tree() if element.getparent() is not None else None
    if not "".join(root.itertext()).strip():
        return content
    return cast("bytes", html.tostring(root, encoding="utf-8"))
