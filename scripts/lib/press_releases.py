"""The Press Release Archive (github.com/Newsworthyai/press-release-archive, CC0) as documents, one JSON object a line.

  press_releases.py CHECKOUT > press.ndjson

A release is a file SENDER/YEAR/MONTHDAY/NAME.md whose first line is its title. They come in the order of their days;
the id is the path.
"""

import json
import sys
from pathlib import Path


def release(name, text):
    title, _, content = text.partition("\n")
    return {"id": name, "title": title.removeprefix("# ").strip(), "content": content}


def releases(checkout):
    checkout = Path(checkout)
    names = [path.relative_to(checkout).as_posix() for path in checkout.glob("*/*/*/*.md")]
    for name in sorted(names, key=lambda name: (name.split("/")[1:3], name)):
        yield release(name, (checkout / name).read_text(encoding="utf8"))


if __name__ == "__main__":
    for found in releases(sys.argv[1]):
        sys.stdout.write(json.dumps(found, ensure_ascii=False) + "\n")
