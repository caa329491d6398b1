#!/usr/bin/env python3
"""What CHANGELOG.md says of a version: changelog.py 0.1.0. Without a section of that version, the unreleased one's."""

import pathlib
import re
import sys


def section(text, version):
    """The text under a version's heading; of a version that has none, what is not released yet."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    found = {title.split(" ")[0].lstrip("v"): body.strip() for title, body in zip(parts[1::2], parts[2::2])}
    return found.get(version.removeprefix("v"), found.get("Unreleased", ""))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(section((pathlib.Path(__file__).resolve().parent.parent / "CHANGELOG.md").read_text(), sys.argv[1]))
