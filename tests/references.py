#!/usr/bin/env python3
"""What the repository's texts refer to is in the repository: files by path or name, sections of docs/spec by number.

`references.py` looks through every file and prints a line for each reference that leads nowhere; status 1 where there is
one. A clone has to stand alone: a path out of it is such a reference too.
"""

import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Licences, what Go and Cargo write, wrong references on purpose, and what is no text.
NOT_OURS = re.compile(r"(^|/)(LICENSE|NOTICE|test_(?:references|lint)\.py|go\.sum|Cargo\.lock)$|\.(gz|bin|png|ico|woff2|pem|key|crt|pyc)$")
# What git ignores, and git's own.
NOT_KEPT = re.compile(r"^(\.git|target|target-.*|__pycache__|proptest-regressions)$")
# Folders by which a path of ours begins, seen from the root or from a package.
TOPS = "actors|crates|deploy|docs|observability|src|tests|tools|xtask|benches|examples|packed"
PATH = re.compile(rf"(?<![\w/.$}}>-])((?:{TOPS})/[\w./*-]*[\w*])")
LINK = re.compile(r"\]\(([^)\s]+)\)")
OUTSIDE = re.compile(r"(?<![\w/.])((?:\.\./)+[\w.-]+(?:/[\w.-]+)*)")
SPEC = re.compile(r"\b(?:karpenter-(core|aws)|(core|aws) spec) (\d+(?:\.\d+)?(?:(?:, | and | to )\d+(?:\.\d+)?)*)((?:,? (?:and )?\"[^\"]+\")*)")
# A file called by its name alone; the domain karpenter.sh is none.
NAME = re.compile(r"(?<![\w/.$}*{-])([\w-]+\.(?:py|md|rs))\b(?![\w(-])")
# A text that is called by its name and a section, and is in no clone.
ELSEWHERE = re.compile(r"(?<!By )(?<!by )\b(?:design|brief|issue), \"[^\"]+\"")
HEADING = re.compile(r"^#+ (\d+(?:\.\d+)?)\.? ")


def files(root):
    """The files of the repository, each with its text, or with none where nothing in it refers to ours."""
    for folder, inside, names in os.walk(root):
        inside[:] = sorted(one for one in inside if not NOT_KEPT.match(one))
        for path in (pathlib.Path(folder, name) for name in sorted(names)):
            ours = not NOT_OURS.search(path.name) and not path.is_symlink()
            yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8", errors="replace") if ours else ""


def sections(root, which):
    """The sections of a specification by number, each with its text (of its subsections too)."""
    found, open_ones = {}, []
    for line in (root / f"docs/spec/karpenter-{which}.md").read_text().splitlines():
        heading = HEADING.match(line)
        if heading:
            number = heading[1]
            open_ones = [one for one in open_ones if number.startswith(one + ".")] + [number]
            found[number] = ""
        for number in open_ones:
            found[number] += " " + line
    return found


def joined(text):
    """A text with comments on one line each: a reference may run over a line's end. Line numbers are kept beside."""
    starts, out = [0], ""
    for line in text.split("\n"):
        body = re.sub(r"^\s*(?:///|//!|//|#|\*)? ?", "", line)
        out += body + " "
        starts.append(len(out))
    return out, starts


def line_of(starts, at):
    low, high = 0, len(starts) - 1
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if starts[middle] <= at else (low, middle)
    return low + 1


def wrong_sections(name, text, specs):
    """References to sections that are not there, and to words that are not in theirs."""
    flat, starts = joined(text)
    for match in SPEC.finditer(flat):
        which = match[1] or match[2]
        numbers = re.findall(r"\d+(?:\.\d+)?", match[3])
        line = line_of(starts, match.start())
        for number in numbers:
            if number not in specs[which]:
                yield f"{name}:{line}: docs/spec/karpenter-{which}.md has no section {number}"
        for quoted in re.findall(r'"([^"]+)"', match[4]):
            if quoted.lower() not in re.sub(r"\s+", " ", specs[which].get(numbers[-1], "")).lower():
                yield f"{name}:{line}: section {numbers[-1]} of docs/spec/karpenter-{which}.md does not say {quoted!r}"


def bases(root, name):
    """Where a path in a file may begin: at the root, at the file, at its package."""
    here = (root / name).parent
    packages = [folder for folder in (here, *here.parents) if (folder / "Cargo.toml").exists() and root in (folder, *folder.parents)]
    return [root, here, *packages[:1]]


def there(root, base, path):
    """Whether a path leads to something in the repository. Decision records are called by their numbers."""
    full = pathlib.Path(*base.parts, path)
    if "*" in path:
        return any(base.glob(path))
    try:
        inside = full.resolve().is_relative_to(root)
    except OSError:
        return False
    return inside and (full.exists() or any(full.parent.glob(full.name + "-*")) or any(full.parent.glob(full.name + ".*")))


def wrong_paths(root, name, text):
    """Paths that lead nowhere, or out of the repository."""
    for number, line in enumerate(text.split("\n"), 1):
        for match in PATH.finditer(line):
            if not any(there(root, base, match[1].rstrip(".")) for base in bases(root, name)):
                yield f"{name}:{number}: {match[1]} is not there"
        if name.endswith(".md"):
            for link in LINK.findall(line):
                target = link.split("#")[0]
                if target and not re.match(r"[a-z]+:", target) and not there(root, (root / name).parent, target):
                    yield f"{name}:{number}: the link {link} leads nowhere"
        for path in (one for one in OUTSIDE.findall(line) if not one.startswith("../target/")):
            if not any(there(root, base, path) for base in bases(root, name)):
                yield f"{name}:{number}: {path} leads out of the repository, or nowhere"


def wrong_names(name, text, names):
    """Files called by names that no file has."""
    for number, line in enumerate(text.split("\n"), 1):
        for called in NAME.findall(line):
            if called not in names:
                yield f"{name}:{number}: no file is called {called}"


def wrong_texts(name, text):
    """Texts that were never in the repository."""
    flat, starts = joined(text)
    for match in ELSEWHERE.finditer(flat):
        yield f"{name}:{line_of(starts, match.start())}: {match[0]} is a section of a text that is not here"


def wrong(root=ROOT):
    """Every reference that leads nowhere, in order."""
    specs = {which: sections(root, which) for which in ("core", "aws")}
    texts = list(files(root))
    names = {name.rsplit("/", 1)[-1] for name, _ in texts}
    for name, text in texts:
        yield from wrong_sections(name, text, specs)
        yield from wrong_paths(root, name, text)
        yield from wrong_names(name, text, names)
        yield from wrong_texts(name, text)


def main():
    found = list(wrong())
    print("\n".join(found) or "every reference leads somewhere")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
