"""Take a picture of the service's page: python docs/page_picture.py http://127.0.0.1:8080/ "Who built it?" page.png.

Needs playwright and a Chromium, which the environment variable CHROMIUM names.
"""

import argparse
import os
import shutil
from urllib.parse import quote

from playwright.sync_api import sync_playwright


def main() -> None:
    """Ask, wait for the answer, and take the picture."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("address", help="of a service that runs")
    arguments.add_argument("question")
    arguments.add_argument("picture", help="file to write, .png or .jpeg")
    arguments.add_argument("--options", default="", help="more of the address, such as why=1")
    arguments.add_argument("--width", type=int, default=1280)
    arguments.add_argument("--height", type=int, default=940)
    arguments.add_argument("--dark", action="store_true")
    given = arguments.parse_args()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(
            viewport={"width": given.width, "height": given.height},
            color_scheme="dark" if given.dark else "light",
            reduced_motion="reduce",
        )
        for _ in range(2):  # the first answer warms the models up, and its time would stand in the picture
            page.goto("about:blank")
            page.goto(f"{given.address}#q={quote(given.question)}&{given.options}")
            page.locator("#answer .status", has_text="passage").wait_for()
        page.screenshot(path=given.picture)
        browser.close()


if __name__ == "__main__":
    main()
