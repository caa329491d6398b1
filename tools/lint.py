#!/usr/bin/env python3
"""What `cargo xtask lint` holds beside rustfmt, clippy and references: lengths of files and of names, widths of documents, words,
openings of comments, how much the rooms of a machine's life hold (tools/rooms.py).

Prints a line for each thing that is wrong; status 1 where there is one. `--words` counts the words of tools/words.txt,
those that are off too. tools/long_files.txt names the files that may be longer for now, and tools/openings.txt the folders
whose comments may still open with a question's word; `--openings` writes that list anew, with lower counts and no new folder.
"""

import pathlib
import re
import sys

import measure
import rooms

LONGEST_FILE = 400
# A name that has to be typed, as the filter of a test is.
LONGEST_NAME = 60
TOOLS = pathlib.Path(__file__).resolve().parent
COMMENT = re.compile(r"^\s*//[/!]?(.*)$|\s// (.*)$", re.M)
STRING = re.compile(r'b?r#"(?s:.*?)"#|"(?:\\(?s:.)|[^"\\])*"|\'(?:\\.|[^\'\\])\'')
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+")
DECLARED = {
    "type": r"\b(?:struct|enum|trait|type) {}\b",
    "const": r"\b(?:const|static) {}\b",
    "fn": r"\bfn {}\b",
}


def long_files(production, allowed):
    for name, text in sorted(production.items()):
        lines = text.count("\n")
        if lines > LONGEST_FILE and name not in allowed:
            yield f"{name}: {lines} lines of production code; {LONGEST_FILE} at most: split it by topic"


def stale_entries(production, allowed):
    for name in sorted(allowed):
        if production.get(name, "").count("\n") <= LONGEST_FILE:
            yield f"tools/long_files.txt: {name} is not longer than {LONGEST_FILE} lines, or not there: take it out"


def long_names(files):
    for name, text in sorted(files):
        for found in measure.FUNCTION.finditer(text):
            if len(found[1]) > LONGEST_NAME:
                line = text.count("\n", 0, found.start(1)) + 1
                yield f"{name}:{line}: {found[1]} has {len(found[1])} characters; {LONGEST_NAME} at most"


def wide_lines(documents):
    for name, text in documents:
        for number, length, most in measure.wide(text):
            yield f"{name}:{number}: {length} characters; {most} at most"


def asking_openings(files):
    """Comments that open with a question's word, by room: (place, what is wrong)."""
    found = {}
    for name, text in sorted(files):
        for number, _, said in measure.comment_blocks(text):
            if opening := measure.OPENING.match(said):
                line = f"{name}:{number}: a comment opens with {opening[0]}: say its subject first"
                found.setdefault(measure.room(name), []).append(line)
    return found


def wrong_openings(found, allowed):
    for room, lines in sorted(found.items()):
        if len(lines) > allowed.get(room, 0):
            yield from lines
            if room in allowed:
                yield f"tools/openings.txt: {room} has {len(lines)} such openings; {allowed[room]} at most"
    for room, most in sorted(allowed.items()):
        now = len(found.get(room, ()))
        if not now:
            yield f"tools/openings.txt: {room} has no such opening any more: take it out"
        elif now < most:
            yield f"tools/openings.txt: {room} has {now} such openings, no longer {most}: lower it"


def unsaid_roots(files):
    """Roots of packages that do not say first what belongs there."""
    for name, text in sorted(files):
        if re.search(r"(?:^|/)src/(?:lib|main)\.rs$", name) and not text.startswith("//! "):
            yield f"{name}: a package's root opens with `//!` and what belongs in it"


def words():
    """The table of tools/words.txt: state, where, word, folder, instead."""
    rows = []
    for number, line in enumerate((TOOLS / "words.txt").read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        row = [cell.strip() for cell in line.split("|")]
        if len(row) != 5 or row[0] not in ("on", "off") or row[1] not in ("name", "type", "const", "fn", "text"):
            raise SystemExit(f"tools/words.txt:{number}: five columns: on or off | name, type, const, fn or text | word | folder | instead")
        rows.append(row)
    return rows


def blanked(pattern, text):
    """The text without what the pattern finds, its lines where they were."""
    return pattern.sub(lambda found: "\n" * found[0].count("\n"), text)


def is_below(name, folder):
    return folder == "." or name == folder or name.startswith(folder + "/")


def uses(rows, production, documents):
    """Where each row's word stands: (row, place)."""
    parts = {row[2]: [one for one in rows if one[1] == "name" and one[2] == row[2]] for row in rows if row[1] == "name"}
    declared = [(re.compile(DECLARED[row[1]].format(re.escape(row[2]))), row) for row in rows if row[1] in DECLARED]
    phrases = [(re.compile(row[2]), row) for row in rows if row[1] == "text"]
    for name, text in sorted(production.items()):
        code = blanked(COMMENT, blanked(STRING, text)) if parts or declared else ""
        for number, line in enumerate(code.split("\n"), 1):
            if parts:
                said = {part.lower() for one in set(NAME.findall(line)) for part in PART.findall(one)}
                for word in sorted(said & parts.keys()):
                    yield from ((row, f"{name}:{number}") for row in parts[word] if is_below(name, row[3]))
            for pattern, row in declared:
                if is_below(name, row[3]) and pattern.search(line):
                    yield row, f"{name}:{number}"
        if phrases:
            yield from said_in(name, "\n".join("".join(found) for found in COMMENT.findall(text)), phrases)
    for name, text in documents:
        yield from said_in(name, text, phrases)


def said_in(name, text, phrases):
    joined = " ".join(text.split())
    for pattern, row in phrases:
        if is_below(name, row[3]):
            yield from ((row, name) for _ in pattern.finditer(joined))


def allowed_long():
    lines = (TOOLS / "long_files.txt").read_text(encoding="utf-8").split("\n")
    return {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}


def allowed_openings():
    lines = (TOOLS / "openings.txt").read_text(encoding="utf-8").split("\n")
    rows = (line.split() for line in lines if line.strip() and not line.startswith("#"))
    return {room: int(count) for count, room in rows}


def write_openings(found, allowed):
    """Writes the list with counts that are lower or the same; without those that are gone, and with no new room."""
    path = TOOLS / "openings.txt"
    head = [line for line in path.read_text(encoding="utf-8").split("\n") if line.startswith("#")]
    counts = {room: min(most, len(found.get(room, ()))) for room, most in allowed.items()}
    rows = [f"{count:4} {room}" for room, count in sorted(counts.items()) if count]
    path.write_text("\n".join([*head, *rows]) + "\n", encoding="utf-8")


def main():
    files = list(measure.rust_files())
    everywhere = [*files, *measure.rust_files(["tests"])]
    production, _ = measure.split(files)
    openings = asking_openings(everywhere)
    if "--openings" in sys.argv:
        write_openings(openings, allowed_openings())
        return 0
    documents = list(measure.documents())
    rows = words()
    if "--words" in sys.argv:
        counted = [row for row, _ in uses(rows, production, documents)]
        for row in rows:
            print(f"{counted.count(row):6}  {row[0]:3} {row[1]:5} {row[2]:20} {row[3]:22} say {row[4]}")
        return 0
    allowed = allowed_long()
    wrong = [*long_files(production, allowed), *stale_entries(production, allowed)]
    wrong += [*unsaid_roots(files), *long_names(everywhere), *wide_lines(documents), *wrong_openings(openings, allowed_openings())]
    wrong += rooms.too_many(rooms.figures(production), rooms.table())
    on = [row for row in rows if row[0] == "on"]
    wrong += [f"{place}: {row[2]!r}: say {row[4]}" for row, place in uses(on, production, documents)]
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
