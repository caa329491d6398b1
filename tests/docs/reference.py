#!/usr/bin/env python3
"""Makes docs/guide/names.md from the code that has the names, and holds pages to what they have to name.

    python3 tests/docs/reference.py --write
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAMES = ROOT / "crates/api/src/names"
PAGE = ROOT / "docs/guide/names.md"
STORY = ROOT / "actors/src/telemetry/log_event.rs"
#: Where the pages are that it points to, seen from its own folder.
UP = ".."
HEAD = f"""# Annotations, labels, taints, tags and conditions

All names that Kubernetes or AWS sees. This page is generated from the code
(`python3 tests/docs/reference.py --write`). Values are in the row of their name.
[Pools]({UP}/{"pools"}.md) and [disruption]({UP}/{"disruption"}.md) describe the names that you write by
hand. The control plane writes all others.
"""
TABLES = (("Annotations", "annotations.rs"), ("Labels", "labels.rs"), ("Taints", "taints.rs"), ("Tags of AWS resources", "tags.rs"), ("Conditions", "conditions.rs"))
CONSTANT = re.compile(r'((?:^ *///.*\n)+) *(?:pub const )?([A-Z][A-Z0-9_]*)(?:: &str = | = | => )"([^"]+)"[;,]', re.MULTILINE)
#: Labels that instance types define, without their domain.
AWS = re.compile(r"karpenter\.k8s\.aws/\", \$key")
#: Constants that are no names of their own: values of the row that they name, and words that many names share.
VALUE = re.compile(r"^Value of \[`(\w+)`\](?:: (.*)|\.)$")
SHARED = re.compile(r"^(?:Effect\.|Status of a condition\.|Reason of )")
TELLS = re.compile(r'^ {4}[A-Z]\w+ "(\w+)" (Error|Warn)\b', re.MULTILINE)


def sentence(comment, constants):
    """A comment in Rust's way as plain text."""
    text = plain(comment)
    # [`NAME`] is what that constant says; paths stay out of a user's page.
    text = re.sub(r"\s*\(\[`crate::[^)]*\)", "", text)
    return re.sub(r"\[`(?:\w+::)*(\w+)`\]", lambda found: f"`{constants.get(found[1], found[1])}`", text).replace("|", "\\|")


def constants(name):
    """(name in the code, text, comment) of a file, in order."""
    text = (NAMES / name).read_text()
    known, found = {}, []
    for comment, constant, value in CONSTANT.findall(text):
        within = name == "labels.rs" and not re.search(rf"pub const {constant}\b", text)
        value = f"karpenter.k8s.aws/{value}" if within else value
        known[constant] = value
        found.append((constant, value, comment))
    return found, known


def page():
    known = {}
    for _, name in TABLES:
        known |= constants(name)[1]
    parts = [HEAD]
    for title, name in TABLES:
        found, own = constants(name)
        rows = [f"| `{value}` | {what} |\n" for value, what in told(found, known | own)]
        parts.append(f"\n## {title}\n\n| name | what |\n|---|---|\n" + "".join(rows))
    return "".join(parts)


def plain(comment):
    return " ".join(line.strip().removeprefix("///").strip() for line in comment.splitlines())


def told(found, known):
    """The rows of a table: (name, what), values in the row of what they are values of."""
    values = {}
    for constant, value, comment in found:
        if of := VALUE.match(plain(comment)):
            values.setdefault(of[1], []).extend([f"`{value}`: {sentence(of[2], known)}"] if of[2] else [])
    unknown = values.keys() - {constant for constant, _, _ in found}
    if unknown:
        raise SystemExit(f"values of what is not in the same file: {sorted(unknown)}")
    for constant, value, comment in found:
        if not VALUE.match(plain(comment)) and not SHARED.match(plain(comment)):
            yield value, " ".join([sentence(comment, known), *values.get(constant, [])])


def warnings():
    """The happenings that the log tells as errors or warnings."""
    return {name for name, _ in TELLS.findall(STORY.read_text())}


def event_reasons():
    """Reasons of Kubernetes events that stand in calls of the recorder, and those of interruptions."""
    text = "".join(path.read_text() for path in sorted((ROOT / "actors/src").rglob("*.rs")) if path.name != "tests.rs")
    found = set(re.findall(r'\b(?:Record::(?:normal|warning)|self\.record)\(\s*[^;"]{1,120}?,\s*"([A-Z][A-Za-z]+)"', text))
    kinds = (ROOT / "crates/core/src/interruption/mod.rs").read_text()
    return found | set(re.findall(r'Self::\w+ => "([A-Z][A-Za-z]+)"', kinds))


def texts_of_code():
    """Every text in the code of actors and core that could be a reason."""
    places = [*(ROOT / "actors/src").rglob("*.rs"), *(ROOT / "crates/core/src").rglob("*.rs")]
    return set().union(*(re.findall(r'"([A-Z][A-Za-z]+)"', path.read_text()) for path in places))


def main(arguments):
    if arguments != ["--write"]:
        sys.exit(__doc__)
    PAGE.write_text(page())


if __name__ == "__main__":
    main(sys.argv[1:])
