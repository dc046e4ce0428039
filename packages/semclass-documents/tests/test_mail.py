"""Messages and mailboxes: their own text, their metadata, and what damaged ones give."""

from __future__ import annotations

import mailbox
from email.message import EmailMessage

import pytest

from semclass import Chunking
from semclass.documents.readers import read_passages
from semclass_documents.mail import own_text

KEEP = Chunking(keep_copies=True)
OWN = "The pump runs at night, and nobody knows why."


def message(text, subtype="plain", **headers):
    found = EmailMessage()
    for name, value in {"From": "Ann Lee <Ann@Example.org>", "Subject": "The pump", **headers}.items():
        found[name.replace("_", "-")] = value
    found.set_content(text, subtype=subtype)
    return found


def written(folder, *messages):
    if len(messages) == 1:
        (folder / "a.eml").write_bytes(messages[0].as_bytes())
        return folder / "a.eml"
    box = mailbox.mbox(folder / "a.mbox")
    for one in messages:
        box.add(one)
    box.close()
    return folder / "a.mbox"


@pytest.mark.parametrize(
    "rest",
    [
        "> Since when?\n> Ann\n",
        "On Mon, 3 Nov 2025 at 10:12, Bo <bo@example.org> wrote:\n\n> Since when?\n",
        "On Mon, 3 Nov 2025 at 10:12, Bo Long-Name\n<bo@example.org> wrote:\n> Since when?\n",
        "On 3 November Bo wrote:\n\n> Since when?\n",
        "Am 03.11.2025 um 10:12 schrieb Bo:\n> Seit wann?\n",
        "-----Original Message-----\nFrom: Bo\nSent: Monday\n\nSince when?\n",
        "________________\nFrom: Bo <bo@example.org>\nSent: Monday\nTo: Ann\nSubject: Pump\n\nSince when?\n",
        "-- \nAnn Lee\nHarbour Street 5\n",
        "This e-mail and any attachments are confidential and intended solely\nfor the addressee.\n\n"
        "If you are not the intended recipient, please delete it.\n",
        "Please consider the environment before printing this e-mail.\n",
        "Sent from my phone\n",
    ],
)
def test_quotations_and_signatures_are_cut_off(rest):
    assert own_text(f"{OWN}\n\n{rest}") == OWN


def test_answers_between_and_below_quotes_are_kept():
    text = f"On 3 November Bo wrote:\n> Since when?\nSince March.\n> Which pump?\n{OWN}"
    assert own_text(text).split("\n") == ["Since March.", OWN]
    for text in (f"On the roof {OWN}\n\nBo wrote: no.", f"On Monday a customer wrote:\n\n{OWN}"):
        assert own_text(text) == text
    # a message that only passes another one on is kept
    assert OWN in own_text(f"-----Original Message-----\nFrom: Bo\n\n{OWN}")


@pytest.mark.parametrize(
    "text",
    [
        "On page 4 of the manual someone wrote:\n\nThe valve is replaced every 8 years.\n\nIs that true?",
        "On 3 November Bo wrote:\n\nThe valve leaks.",
        "On page 4 someone wrote:\n> 8 bar: open the valve",
        "The valve opens by itself at\n> 8 bar in winter\n>= 9 bar in summer\nand shuts at night.",
        "From: Holm\nTo: Sund\nDate: Monday 3 November\n\nThe ferry leaves at noon.",
        "From: Holm\nTo: Sund\nCc: none\nThe ferry leaves at noon.",
        "The confidentiality notice on page 4 must be signed",
        "Confidentiality notice: sign page 4 by Friday.",
        "Send the confidential plan to the intended recipient only, and delete the draft.",
        "From: 9:00\nTo: 11:00\nDate: 4 May 2026\nSubject: Knots\n\nSign up by Friday.",
        "From: Holm\nTo: Sund\nDate: 4 May\nSubject: Ferry\n\nSign up by Friday.",
        "Please consider the environment before printing 500 maps.",
        "Sent from my office were three parcels, and none of them came.",
        "Paint the hull.\n--\nReplace the engine of the boat.\n--\nSail to Holm.",
        "Paint the hull.\n-- \nReplace the engine of the boat.",
        "Paint the hull.\n—\nSail",
        "Paint the hull.\n--\nSail",
        "---------- Forwarded message ---------\nFrom: Bo\nDate: Monday\nSubject: Pump\nTo: Ann\n\n> It leaks.",
        "Begin forwarded message:\n\n> From: Bo\n> Subject: Pump\n>\n> It leaks.",
    ],
)
def test_own_words_that_look_like_something_else_are_kept(text):
    text = f"{OWN}\n\n{text}"
    assert own_text(text, reply="8 bar" in text) == text


def test_a_forward_is_kept_without_the_signature_above_it(tmp_path):
    old = "-----Original Message-----\nFrom: Bo\nSent: Monday\nTo: Ann\nSubject: Pump\n\nIt leaks.\n"
    for subject in ("FW: Pump", "Fwd: Re: Pump", "WG: Pump", "Pump", "Re: Fwd: Pump"):
        kept = not subject.startswith("Re")
        found = read_passages(written(tmp_path, message(f"{OWN}\n-- \nAnn Lee\n\n{old}", Subject=subject)))
        assert ("It leaks." in found[-1].text, "Ann Lee" in found[0].text) == (kept, False)
    page = f"<p>{OWN}</p><div class=gmail_quote>---------- Forwarded message ---------<br>From: Bo<p>It leaks.</div>"
    assert "It leaks." in read_passages(written(tmp_path, message(page, "html")))[0].text
    note = message(OWN)
    note.add_attachment(message("It leaks.", From="Bo <bo@example.org>"))
    found = read_passages(written(tmp_path, note))
    assert "\n".join(one.text for one in found) == f"{OWN}\nFrom: Bo <bo@example.org>\nSubject: The pump\n\nIt leaks."


def test_all_parts_with_text_are_read_and_files_are_not(tmp_path):
    note = message(OWN)
    note.add_attachment(b"\x00", maintype="image", subtype="png", filename="a.png", disposition="inline")
    note.add_attachment("Its number is 4711.", disposition="inline")
    note.add_attachment("An attached file.", filename="a.txt")
    (found,) = read_passages(written(tmp_path, note))
    assert found.text == f"{OWN}\n\nIts number is 4711."
    note.add_attachment("<p>It is <b>red</b>.", subtype="html", disposition="inline")
    (found,) = read_passages(written(tmp_path, note))
    assert found.text == f"{OWN}\n\nIts number is 4711.\n\nIt is red."


@pytest.mark.parametrize(
    "stub",
    [
        "This message is in HTML. Please use a mail program that can show HTML.",
        "View it in your browser: x.org",
        " ",
        "Sorry, but this message of ours to all who sail cannot be shown as plain text. Visit our site.",
    ],
)
def test_html_is_read_where_the_plain_part_only_says_so(tmp_path, stub):
    both = message(stub)
    both.add_alternative("<p>The engine costs 9000 crowns with delivery to Holm.", subtype="html")
    assert "9000 crowns" in read_passages(written(tmp_path, both))[-1].text


def test_latin_1_of_mail_is_windows_1252(tmp_path):
    (tmp_path / "a.eml").write_bytes(
        b"From: a@x.org\nSubject: =?iso-8859-1?Q?=80_40?=\nContent-Type: text/plain; charset=iso-8859-1\n\n\x96 \x80 40"
    )
    (found,) = read_passages(tmp_path / "a.eml")
    assert (found.text, found.metadata["title"]) == ("– € 40", "€ 40")


def test_a_line_that_begins_with_from_separates_no_messages(tmp_path):
    (tmp_path / "a.mbox").write_bytes(
        b"From a@x.org Mon Nov  3 10:12:00 2025\nSubject: Ferry\n\nSnow.\n\nFrom now, Sat at 9:00 in 2025, it leaves.\n\n"
        b"From - Tue Nov 04 10:12:00 2025\nSubject: Kiosk\n\nIt opens at noon.\n"
    )
    first, second = read_passages(tmp_path / "a.mbox")
    assert (first.text.split("\n")[-1], first.metadata["message"]) == (
        "From now, Sat at 9:00 in 2025, it leaves.",
        1,
    )
    assert (second.text, second.metadata["message"]) == ("It opens at noon.", 2)


def test_headers_are_metadata_and_the_subject_is_the_title(tmp_path):
    path = written(
        tmp_path,
        message(
            OWN, To="bo@example.org, Cy <cy@example.org>", Date="Mon, 03 Nov 2025 10:12:00 +0100", Message_ID="<2@x>"
        ),
    )
    (found,) = read_passages(path)
    assert (found.id, found.text) == ("a.eml#1", OWN)
    assert found.metadata == {
        "document": "a.eml", "file": "a.eml", "title": "The pump", "sender": "ann@example.org", "sender_name": "Ann Lee",
        "to": ["bo@example.org", "cy@example.org"], "date": "2025-11-03T10:12:00+01:00", "thread": "2@x",
        "paragraph": 1, "start": 0, "end": len(OWN),
    }  # fmt: skip


def test_a_thread_is_a_document_of_messages_in_order(tmp_path):
    path = written(
        tmp_path,
        message(f"{OWN} Third.", Message_ID="<3@x>", In_Reply_To="<2@x>", Date="Wed, 05 Nov 2025 01:00:00 +0900"),
        message(f"{OWN} First.", Message_ID="<1@x>", Date="Mon, 03 Nov 2025 10:12:00 +0100"),
        message("Other.", Message_ID="<4@x>", Subject="The valve"),
        message(
            f"{OWN} Second.", Message_ID="<2@x>", References="<1@x>", Date="Tue, 04 Nov 2025 10:12:00 +0100",
            From="bo@example.org", Subject="Re: The pump",
        ),
    )  # fmt: skip
    *found, other = read_passages(path)
    assert [(one.id, one.text.split()[-1]) for one in found] == [
        ("a.mbox:1@x#1", "First."), ("a.mbox:1@x#2", "Second."), ("a.mbox:1@x#3", "Third."),
    ]  # fmt: skip
    assert {(one.metadata["document"], one.metadata["thread"]) for one in found} == {("a.mbox:1@x", "1@x")}
    assert found[1].metadata["sender"] == "bo@example.org"
    assert [one.metadata["date"][:10] for one in found] == ["2025-11-03", "2025-11-04", "2025-11-05"]
    text = "\n\n".join(one.text for one in found)
    assert [text[one.metadata["start"] : one.metadata["end"]] for one in found] == [one.text for one in found]
    assert (other.id, other.metadata["thread"]) == ("a.mbox:4@x#1", "4@x")


def test_messages_of_a_thread_may_be_in_several_files(tmp_path):
    for name, one in {
        "inbox/b.eml": message("Since when?", Message_ID="<1@x>", Date="Mon, 03 Nov 2025 10:12:00 +0100"),
        "sent/a.eml": message("Since March.", In_Reply_To="<1@x>", Date="Tue, 04 Nov 2025 10:12:00 +0100"),
        "all/b.eml": message("Since when?", Message_ID="<1@x>", Date="Mon, 03 Nov 2025 10:12:00 +0100"),
    }.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(one.as_bytes())
    (tmp_path / "c.md").write_text("Notes.")
    assert [(one.id, one.metadata.get("file"), one.text) for one in read_passages(tmp_path, KEEP)] == [
        ("c.md#1", None, "Notes."),
        ("all/b.eml#1", "all/b.eml", "Since when?"),
        ("all/b.eml#2", "sent/a.eml", "Since March."),
    ]


@pytest.mark.parametrize("mark", ["Re: ", "AW: ", "Fwd: ", "WG: ", "RE: aw: ", "Re[2]: "])
def test_a_reply_without_ids_belongs_to_its_subject(tmp_path, mark):
    path = written(
        tmp_path,
        message("First.", Date="Mon, 03 Nov 2025 10:12:00 +0100"),
        message("Second.", Subject=f"{mark}The pump", Date="Tue, 04 Nov 2025 10:12:00 +0100"),
        message("Another.", Date="Wed, 05 Nov 2025 10:12:00 +0100"),
        message("Alone.", Subject="Re: The valve"),
    )
    found = [(one.metadata["document"], one.text) for one in read_passages(path)]
    assert found == [("a.mbox#1", "First."), ("a.mbox#1", "Second."), ("a.mbox#3", "Another."), ("a.mbox#4", "Alone.")]


def test_html_alone_is_read_without_quotes(tmp_path):
    page = (
        f"<p>{OWN}</p><div class='gmail_signature'>Ann</div><div class='gmail_quote'>Bo wrote: Since when?</div>"
        "<blockquote type='cite'>Since when?</blockquote>"
    )
    (found,) = read_passages(written(tmp_path, message(page, "html")))
    assert found.text == OWN


def test_odd_messages_of_a_mailbox_stop_nothing(tmp_path):
    (tmp_path / "a.mbox").write_bytes(
        b"From a Mon Nov  3 10:12:00 2025\nSubject: =?no-such?Q?T=fc?=\nFrom: \"<@\nDate: soon\n"
        b"Content-Type: text/plain; charset=no-such\n\nT\xfcr\n>From the start\n\n"
        b"From b Mon Nov  3 10:12:00 2025\n\n\n\n"
        b"From c Mon Nov  3 10:12:00 2025\nSubject: Only a subject\n\n\n"
    )  # fmt: skip
    first, second = read_passages(tmp_path / "a.mbox")
    assert first.text == "Tür\nFrom the start"
    assert second.text == "Only a subject"
