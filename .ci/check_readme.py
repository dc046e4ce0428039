"""Check what an index would show of the built wheels: each README renders, and no link in it leads nowhere."""

import re
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

from readme_renderer import markdown


def check(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    assert metadata["Description-Content-Type"].startswith("text/markdown"), metadata["Description-Content-Type"]
    shown = markdown.render(metadata.get_payload())
    assert shown, f"the README of {wheel.name} does not render"
    links = re.findall(r'(?:href|src)="([^"]+)"', shown)
    relative = [link for link in links if not link.startswith(("https://", "http://localhost", "#"))]
    assert not relative, f"links of {wheel.name} that lead nowhere: {relative}"
    urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL"))
    root = urls["Repository"] + "/blob/main/"
    targets = [link.removeprefix(root).partition("#")[0] for link in links if link.startswith(root)]
    assert targets, f"no link of {wheel.name} leads to {root}: the addresses in pyproject.toml differ"
    missing = [target for target in targets if not Path(target).exists()]
    assert not missing, f"links of {wheel.name} to files that are not there: {missing}"
    print(f"{wheel.name}: the README renders, {len(links)} links; {', '.join(sorted(urls))}")


for path in sorted(Path(sys.argv[1]).glob("*.whl")):
    check(path)
