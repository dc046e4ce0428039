"""Sixty tickets of a help desk, and the same in every form that lists records."""

from __future__ import annotations

import csv
import json
import random
from datetime import datetime, timedelta, timezone

FAULTS = [
    ("Printer on the third floor", "The printer takes two sheets at once and then reports a paper jam in tray two."),
    ("Toner smears", "Every page from the laser printer has a grey stripe that comes off on the fingers."),
    ("Label printer is offline", "The label printer in the warehouse shows offline although its cable is plugged in."),
    ("Cannot log in", "After the holiday my password is refused, and the account is locked after three attempts."),
    ("Second factor lost", "My phone with the authenticator was stolen, so I cannot confirm the sign-in any more."),
    ("Certificate warning", "The browser warns that the certificate of the intranet has expired since last night."),
    ("VPN drops", "The tunnel to the head office breaks off after exactly ten minutes and has to be dialled again."),
    ("Slow network", "Copying a file of one gigabyte from the share takes half an hour in the meeting room."),
    ("No signal in the cellar", "Hand scanners lose the wireless network as soon as they go down to the archive."),
    ("Screen flickers", "The left monitor of the docking station flickers when both are set to full resolution."),
    ("Laptop gets hot", "The fan of the laptop is loud all day, and the case is too hot to keep on the knees."),
    ("Battery swollen", "The touchpad bulges upwards, and I think that the battery underneath has swollen."),
    ("Keyboard layout", "Since the upgrade the letters y and z are swapped, and umlauts are missing."),
    ("Mouse double clicks", "One press of the left button opens files twice, with a new mouse as well."),
    ("Headset without sound", "Colleagues do not hear me in calls, but the recorder of the system hears the microphone."),
    ("Camera is black", "In video calls my picture stays black, and the lamp beside the lens does not light."),
    ("Calendar shows wrong hour", "Invitations from the office in Lisbon stand one hour too late in the calendar."),
    ("Mails arrive twice", "Each message of the shared mailbox is delivered two times since the migration."),
    ("Spam in the inbox", "Dozens of advertisements for watches pass the filter every morning."),
    ("Attachment is blocked", "The gateway strips drawings in the DWG format from what our supplier sends."),
    ("Mailbox is full", "I cannot send anything because the quota of two gigabytes is used up."),
    ("Invoice without tax", "The invoice of March leaves out the value added tax, though our number is on file."),
    ("Charged twice", "The yearly fee was taken from our credit card two times on the same day."),
    ("Change of address", "Please send bills to the new premises in Harbour Street from next quarter on."),
    ("Cancel the contract", "We want to end the subscription of five seats at the close of the term."),
    ("Discount is missing", "The quotation does not contain the reduction for schools that was promised by phone."),
    ("Refund not received", "Three weeks after the return of the scanner the money is still not on our account."),
    ("Upgrade of the plan", "How can we move from the small plan to the one with unlimited projects?"),
    ("Export is empty", "The export of time sheets gives a file with column names but not one line of data."),
    ("Import stops", "The import of articles ends at line 4,812 with a message about a broken encoding."),
    ("Report takes ages", "The monthly report on stock needs forty minutes, before the summer it took two."),
    ("Wrong total", "The sum at the bottom of the cost table does not include the last two rows."),
    ("Search finds nothing", "The search of the wiki returns no page at all, not even for words of its front page."),
    ("Backup failed", "The nightly backup of the file server ended with an error that the disk is full."),
    ("Restore a folder", "Somebody deleted the folder of the annual accounts, please bring back the state of Friday."),
    ("Database locks", "Bookings wait for a lock on the customer table every day around noon."),
    ("Server restarts", "The virtual machine of the web shop restarts by itself two or three times a week."),
    ("Power cut", "After the power cut of yesterday the rack in the basement does not come up again."),
    ("Air conditioning", "It is thirty-one degrees in the server room, and the cooling unit is dripping."),
    ("Door badge", "My badge opens the main entrance but not the door to the laboratory."),
    ("Lift panel", "The display in the lift shows the floors upside down since maintenance was here."),
    ("Desk phone", "The telephone rings once and then passes all calls on to reception."),
    ("Voicemail language", "The greeting of the voicemail is in French, and nobody here can change it."),
    ("Fax of the pharmacy", "Prescriptions that are faxed at night come out with their lower half cut off."),
    ("App crashes", "The app on the tablet closes at once when I take a photograph of a delivery note."),
    ("Push messages", "Drivers get no notification of a changed route, although it is switched on in the settings."),
    ("Map is outdated", "The navigation still leads trucks over the bridge that was closed in spring."),
    ("Barcode unreadable", "The scanner at the till does not recognise the code on bottles with a curved label."),
    ("Scale is off", "The scale at the counter shows eleven grams although nothing lies on it."),
    ("Receipt is cut off", "The right edge of receipts is missing since we use the new rolls of paper."),
    ("New employee", "Please prepare a laptop, a badge and accounts for a colleague who starts on the first."),
    ("Leaver", "Our trainee leaves on Friday; her accounts must be closed and her files handed to me."),
    ("Access to payroll", "As a deputy I need to read the payroll of my department during the leave of its head."),
    ("Software request", "I need a licence of the drawing program for plans of the new kitchen."),
    ("Browser plugin", "The plugin for electronic signatures is not offered in the new version of the browser."),
    ("Font is missing", "Presentations of the agency are shown in a substitute typeface and run over the slide."),
    ("PDF form", "Entries in the travel form vanish as soon as the file is saved and opened again."),
    ("Macro is blocked", "The spreadsheet for shift planning says that its macros were disabled by an administrator."),
    ("Video wall", "The lower right panel of the wall in the foyer stays blue during the welcome film."),
    ("Water in the hall", "Water drips from the ceiling onto the projector in the lecture hall when it rains."),
]  # fmt: skip

CUSTOMERS = ["Acme", "Acorn Books", "Bright & Sons", "Harbour Clinic", "Lindt Ltd"]

CONTEXT = [
    "It began on Monday morning.", "A restart did not help.", "Two other people see the same.", "It worked last week.",
    "Nobody has changed anything as far as I know.", "We can live with it until Thursday.", "Please call before you come.",
    "I am in the office from nine to four.", "The cable was exchanged already.", "This is the second time this year.",
]  # fmt: skip

QUESTIONS = [
    "Why does the printer pull in more than one sheet?",
    "What leaves a grey line that rubs off on printed pages?",
    "Which device cannot be reached in the warehouse?",
    "Whose account was locked because the password was wrong?",
    "What if someone's phone for two-factor sign-in is stolen?",
    "Which certificate ran out last night?",
    "Which VPN connection is interrupted after ten minutes?",
    "Where does copying from the share take so long?",
    "Where do the hand scanners lose their connection?",
    "Which monitor does not have a steady picture?",
    "What makes a noise all day because it overheats?",
    "Is there a laptop with a swollen battery?",
    "Why do I type a z when I press y?",
    "What happens when the left button is pressed once?",
    "Who cannot be heard in calls?",
    "Why does nobody see me in video calls?",
    "Why are meetings from Lisbon at the wrong time in the calendar?",
    "In which mailbox is every message there twice?",
    "What are the unwanted messages about that pass the filter?",
    "Which kind of attachment does the gateway remove?",
    "Why can no more messages be sent?",
    "Which invoice lacks the value added tax?",
    "Who paid the yearly fee twice by credit card?",
    "Where should the bills go from the next quarter?",
    "How many seats shall be cancelled?",
    "Who was promised a lower price on the phone?",
    "Who is still waiting for money back for a returned scanner?",
    "Which plan allows as many projects as you like?",
    "Which exported file has no rows?",
    "At which line does the import of articles stop?",
    "How long does the stock report take?",
    "Which sum leaves out two lines?",
    "Where can nothing be found, not even words of the front page?",
    "Why did the backup of the file server fail at night?",
    "Which deleted folder has to be restored?",
    "At what time of day does the customer table block bookings?",
    "Which machine reboots on its own several times a week?",
    "What did not start again when the electricity was back?",
    "How warm is it in the server room?",
    "Which door does the badge not open?",
    "What shows the floors the wrong way round?",
    "Why do calls for me end up at reception?",
    "Which greeting is spoken in the wrong language?",
    "Which documents arrive at night with only their top half?",
    "When does the tablet app crash?",
    "Who is not told that a route has changed?",
    "Which bridge should trucks no longer be sent over?",
    "Why can bottles not be scanned at the till?",
    "Which scale shows weight although it is empty?",
    "Since when do receipts lose their right edge?",
    "What has to be ready for a colleague who joins us?",
    "When is the last day of the trainee?",
    "Who needs permission to see salaries as a deputy?",
    "What is the drawing program needed for?",
    "What do I need to sign documents in the browser?",
    "Why does the text of the slides not fit?",
    "Which form forgets what was typed into it?",
    "Why can the shift planning spreadsheet not run its macros?",
    "Which part of the screen in the foyer has no picture?",
    "Where does water leak onto the projector?",
]
"""A question for each ticket, which no other ticket answers."""


def made():
    """The tickets, with the columns id, date, customer, priority, open, subject and description."""
    rng = random.Random(60)
    tickets = []
    for place, (subject, fault) in enumerate(FAULTS):
        date = datetime(2025, 11, 1, tzinfo=timezone.utc) + timedelta(days=2 * place)
        tickets.append(
            {
                "id": f"T-{place + 100}",
                "date": date.date().isoformat(),
                "customer": CUSTOMERS[place % len(CUSTOMERS)],
                "priority": rng.randint(1, 4),
                "open": rng.random() < 0.5,
                "subject": subject,
                "description": " ".join([fault, *rng.sample(CONTEXT, 2)]),
            }
        )
    return tickets


def as_csv(path, tickets):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, tickets[0])
        writer.writeheader()
        writer.writerows(tickets)


def as_json(path, tickets):
    path.write_text(json.dumps(tickets))


def as_json_lines(path, tickets):
    path.write_text("".join(json.dumps(ticket) + "\n" for ticket in tickets))


def as_xlsx(path, tickets):
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(list(tickets[0]))
    for ticket in tickets:
        book.active.append([*{**ticket, "date": datetime.fromisoformat(ticket["date"])}.values()])
    book.save(path)


FORMS = {".csv": as_csv, ".json": as_json, ".jsonl": as_json_lines, ".xlsx": as_xlsx}
