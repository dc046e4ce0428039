"""Check what an index would show of the built wheel: the README renders, and no link in it leads nowhere."""

import re
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

from readme_renderer import markdown

(wheel,) = Path(sys.argv[1]).glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(archive.read(name).decode())

text = metadata.get_payload()
assert metadata["Description-Content-Type"].startswith("text/markdown"), metadata["Description-Content-Type"]
shown = markdown.render(text)
assert shown, "the README does not render"
links = re.findall(r'(?:href|src)="([^"]+)"', shown)
assert links
relative = [link for link in links if not link.startswith(("https://", "#"))]
assert not relative, f"links that lead nowhere: {relative}"

urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL"))
root = urls["Repository"] + "/blob/main/"
assert any(link.startswith(root) for link in links), (
    f"no link leads to {root}: the two addresses in pyproject.toml differ"
)
missing = [
    link for link in links if link.startswith(root) and not Path(link.removeprefix(root).partition("#")[0]).exists()
]
assert not missing, f"links to files that are not there: {missing}"
print(f"{wheel.name}: the README renders, {len(links)} links; {', '.join(sorted(urls))}")
