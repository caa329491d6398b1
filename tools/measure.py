#!/usr/bin/env python3
"""How fast a stranger finds their way: figures of the tree, each beside its goal.

`cargo xtask measure` prints them. Nothing fails by them; what has to hold is in `cargo xtask lint`.
Production code is what lies in a `src` folder and not in a test module or a `tests` folder.
"""

import collections
import pathlib
import re
import sys

import rooms as of_rooms

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ["actors", "crates", "observability", "src", "xtask"]
# What this file looks for stands in it too, and generated folders are not ours.
SKIPPED = re.compile(r"(^|/)(target[^/]*|\.git|node_modules)(/|$)")
# An associated type stands indented, and a type without `pub` is its own file's: neither is a name to look up.
TYPE = re.compile(r"^pub(?:\([^)]*\))? (?:struct|enum|trait|type) (\w+)", re.M)
# One kind of the API in several of its versions is one name.
VERSIONS = re.compile(r"^crates/api/src/v1\w*(?:/|\.rs$)")
FUNCTION = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?fn (\w+)", re.M)
FILLER = re.compile(r"^\s*/// (?:Its \w+\.|See (?:the )?\w+(?: \w+)?\.|The \w+\.|How many\.|Which one\.)$", re.M)
# A sentence that begins with its question has no subject yet.
OPENING = re.compile(r"(?:What|Whether|How|Who|Whose|Whom|Which|Of|Why|When|Where)\b")
COMMENT_LINE = re.compile(r"^\s*(///|//!|//) ?(.*)$")
CAST = re.compile(r"\bas (?:u8|u16|u32|u64|u128|usize|i8|i16|i32|i64|i128|isize|f32|f64)\b")
TUPLE = re.compile(r"[\w)]: &?(?:'\w+ )?(?:mut )?\((?!\)|dyn |impl )")
BARE_CRATE = re.compile(r"^\s*use crate::(\w+)", re.M)
# Where one thing after another is done to something of somebody's, or an algorithm is no obvious one.
DENSE = ["crates/core/src/pack", "actors/src/launcher", "actors/src/terminator"]
WHY = """
Comments: functions are short and carry doc lines (`///`), which are not counted here: with them it is 130 a thousand lines.
A plain comment says why, and stands where a reader would ask. Elsewhere none is added for the figure's sake.
Tests: what actors do together is shown by scenarios and by the programs in tests/, which need few lines for much. A crate's
own tests are where a case cannot be reached from outside, or is reached more surely by itself."""
WIDEST_PROSE = 100
WIDEST_CODE = 120
# One link, or one piece of code, with what is before and after it: there is nothing to break.
WHOLE = re.compile(r"^\s*(?:[-*] |\d+\. )?(?:\[[^]]*\]\([^)]*\)|`[^`]*`)[.,:;]?$")


def rust_files(folders=tuple(PACKAGES)):
    """The files of our packages, or of other folders, with their text."""
    for package in folders:
        for path in sorted((ROOT / package).rglob("*.rs")):
            name = path.relative_to(ROOT).as_posix()
            if not SKIPPED.search(name):
                yield name, path.read_text(encoding="utf-8")


def is_test_file(name):
    return "/tests/" in name or name.endswith("/tests.rs") or "/benches/" in name or "/examples/" in name


def without_tests(text):
    """A file's text before its test module."""
    at = text.find("#[cfg(test)]\nmod tests {")
    return text if at < 0 else text[:at]


def split(files):
    production, tests = {}, collections.Counter()
    for name, text in files:
        if is_test_file(name):
            tests[name] = text.count("\n")
            continue
        code = without_tests(text)
        production[name] = code
        tests[name] = text.count("\n") - code.count("\n")
    return production, tests


def function_lengths(text):
    """Names and lengths in lines of a file's functions, from the line of `fn` to the brace that closes it."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        found = FUNCTION.match(line)
        if not found:
            continue
        head = at
        while head < len(lines) and not re.search(r"[{;]\s*(?://.*)?$|\}$", lines[head]):
            head += 1
        if head == len(lines) or not re.search(r"\{\s*(?://.*)?$", lines[head]):
            continue
        indent = line[: len(line) - len(line.lstrip())]
        end = next((one for one in range(head, len(lines)) if lines[one] == indent + "}"), None)
        if end is not None:
            yield found[1], end - at + 1


def tuple_parameters(text):
    """How many functions take a tuple: `name: (A, B)` among a function's parameters."""
    return sum(bool(TUPLE.search(parameters(text, found.end()))) for found in FUNCTION.finditer(text))


def parameters(text, at):
    """A function's parameters, given where its name ends: what is between its parentheses, behind its generics."""
    generics = 0
    while text[at] != "(" or generics:
        generics += {"<": 1, ">": -(text[at - 1] != "-")}.get(text[at], 0)
        at += 1
    open_, end = 1, at + 1
    while open_:
        open_ += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[at + 1 : end - 1]


def circles(production):
    """Pairs of top-level rooms of one crate that use each other, by their `use crate::` lines."""
    uses = collections.defaultdict(set)
    for name, text in production.items():
        crate, _, inside = name.partition("/src/") if "/src/" in name else ("src", "", name.removeprefix("src/"))
        room = inside.split("/")[0].removesuffix(".rs")
        if room in ("lib", "main"):
            continue
        for used in BARE_CRATE.findall(text):
            if used != room:
                uses[(crate, room)].add((crate, used))
    pairs = {tuple(sorted((one, other))) for one, others in uses.items() for other in others if one in uses.get(other, ())}
    return sorted(pairs)


def type_names(production):
    """How often each name of a type is given that other files can see."""
    names, kinds = collections.Counter(), set()
    for name, text in production.items():
        if VERSIONS.match(name):
            kinds.update(TYPE.findall(text))
        else:
            names.update(TYPE.findall(text))
    return names + collections.Counter(kinds)


def dense(production):
    """Plain comments a thousand lines where an order matters most."""
    found = []
    for room in DENSE:
        texts = [text for name, text in production.items() if name.startswith(room)]
        comments = sum(len(re.findall(r"^\s*// ", text, re.M)) for text in texts)
        found.append(f"{room.rsplit('src/')[-1]} {1000 * comments / max(1, sum(text.count(chr(10)) for text in texts)):.0f}")
    return ", ".join(found)


def outside():
    """Lines of the tests that start the binary: they are the program's, and no crate's."""
    paths = [path for kind in ("*.rs", "*.py") for path in (ROOT / "tests").rglob(kind) if not SKIPPED.search(path.as_posix())]
    return sum(path.read_text(encoding="utf-8").count("\n") for path in paths)


def documents():
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if "docs/spec/" not in path.as_posix():
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def wide(text):
    """Lines of a document that are too wide: number, length, and how long one may be. Tables are as wide as they are."""
    for number, line, code in prose_and_code(text):
        most = WIDEST_CODE if code else WIDEST_PROSE
        if len(line) > most and not line.startswith("|") and not WHOLE.match(line):
            yield number, len(line), most


def prose_and_code(text):
    """Lines with their numbers, and whether they are of a block of code: indented after an empty line, or fenced."""
    fenced, block, before = False, False, ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        indented = line.startswith("    ")
        block = indented and (block or not before.strip()) or (block and not line.strip())
        yield number, line, fenced or block
        before = line


def comment_blocks(text):
    """First lines of doc blocks and comment blocks: (number, what kind of comment, text)."""
    before = None
    for number, line in enumerate(text.split("\n"), 1):
        found = COMMENT_LINE.match(line)
        kind = found and found[1]
        if found and kind != before:
            yield number, kind, found[2]
        before = kind


def room(name):
    """The folder that a file belongs to: the first below its package's `src`, or else what it lies in."""
    before, source, inside = name.rpartition("src/")
    if not source:
        return "/".join(name.split("/")[:-1][:2])
    return before + source + inside.split("/")[0] if "/" in inside else before + "src"


def package(name):
    return "/".join(name.split("/")[: 2 if name.startswith("crates/") else 1])


def openings(files, place):
    """Doc lines of each place: those that open with a question's word, and all."""
    asked, all_ = collections.Counter(), collections.Counter()
    for name, text in files:
        for _, kind, said in comment_blocks(text):
            if kind != "//":
                all_[place(name)] += 1
                asked[place(name)] += bool(OPENING.match(said))
    return asked, all_


def one_word(production, place):
    """Functions of each place: those named by one word, and all."""
    short, all_ = collections.Counter(), collections.Counter()
    for name, text in production.items():
        for function in FUNCTION.findall(text):
            all_[place(name)] += 1
            short[place(name)] += "_" not in function
    return short, all_


def shares(counted):
    """A share of the whole, then that of each place, in a line."""
    some, all_ = counted
    each = ", ".join(f"{place.removeprefix('crates/')} {100 * some[place] / all_[place]:.0f}" for place in sorted(all_))
    return f"{100 * sum(some.values()) / max(1, sum(all_.values())):.0f} % ({each})"


def words_a_sentence(text):
    prose = [line for line in text.split("\n") if line and not re.match(r"\s*(\||```|    |#)", line)]
    sentences = [one for one in re.split(r"(?<=[.!?:;])\s+", " ".join(prose)) if len(one.split()) > 2]
    return sum(len(one.split()) for one in sentences) / max(1, len(sentences))


def main():
    production, tests = split(rust_files())
    lines = sum(text.count("\n") for text in production.values())
    names = type_names(production)
    twice = sum(count for count in names.values() if count > 1)
    comments = sum(len(re.findall(r"^\s*// ", text, re.M)) for text in production.values())
    of_actors = lambda name: name.startswith("actors/")
    actors = sum(text.count("\n") for name, text in production.items() if of_actors(name))
    flat = collections.Counter(name.rsplit("/", 1)[0] for name in production)
    folder, most = flat.most_common(1)[0]
    long_ones = [(length, f"{name}: {function}") for name, text in production.items() for function, length in function_lengths(text) if length > 60]
    pack = sum(len(CAST.findall(text)) for name, text in production.items() if name.startswith("crates/core/src/pack/"))
    wide_ones = [f"{name}:{number}" for name, text in documents() for number, _, _ in wide(text)]
    rooms = circles(production)
    long_files = sorted(((text.count("\n"), name) for name, text in production.items() if text.count("\n") > 400), reverse=True)
    # Where a figure does not reach its goal the reason stands beside it.
    tuples = [name for name, text in production.items() for _ in range(tuple_parameters(text))]
    everywhere = [*rust_files(), *rust_files(["tests"])]
    rows = [
        ("type names (exported) that another has too", f"{100 * twice / sum(names.values()):.0f} % ({twice} of {sum(names.values())})", "under 10 %"),
        ("plain comments a thousand lines", f"{1000 * comments / lines:.0f}", f"30 to 60 where it is dense: {dense(production)}"),
        ("test lines to production lines", f"{sum(tests.values()) / lines:.2f}", "0.8; see below"),
        ("the same with tests/, which start the binary", f"{(sum(tests.values()) + outside()) / lines:.2f}", "0.8"),
        ("the same in actors", f"{sum(count for name, count in tests.items() if of_actors(name)) / actors:.2f}", "0.8"),
        ("functions that take tuples", len(tuples), "0"),
        ("`as` casts in core/pack", pack, "under 40"),
        ("files in one folder, at most", f"{most} ({folder})", "15"),
        ("functions over 60 lines", len(long_ones), "0"),
        ("files over 400 lines", len(long_files), "0"),
        ("doc lines that only repeat the name", sum(len(FILLER.findall(text)) for text in production.values()), "0"),
        ("doc lines that open with What, Whether, How, Of ...", shares(openings(everywhere, package)), "under 5 %"),
        ("functions named by one word", shares(one_word(production, package)), "under 35 %"),
        ("rooms of one crate that use each other", len(rooms), "0"),
        ("lines of documents over 100 (code: 120) characters", len(wide_ones), "0"),
        ("words a sentence, by document", ", ".join(f"{words_a_sentence(text):.0f}" for _, text in list(documents())[:3]) + " (README, CONTRIBUTING, CHANGELOG)", "20 at most"),
    ]
    for what, figure, goal in rows:
        print(f"{what:51} {figure!s:45} goal {goal}")
    print(WHY)
    of_rooms.print_table(production)
    if "--all" in sys.argv:
        for count, name in long_files:
            print(f"long file: {name} ({count} lines)")
        for length, name in sorted(long_ones, reverse=True):
            print(f"long function: {name} ({length} lines)")
        for title, (some, all_) in [("doc openings", openings(everywhere, room)), ("one-word functions", one_word(production, room))]:
            for place in sorted(all_):
                print(f"{title}: {place} {100 * some[place] / all_[place]:.0f} % ({some[place]} of {all_[place]})")
        for name in tuples:
            print(f"takes a tuple: {name}")
        for one, other in rooms:
            print(f"circle: {one[0]}: {one[1]} and {other[1]}")
        for name, count in sorted(names.items(), key=lambda one: (-one[1], one[0])):
            if count > 1:
                print(f"type name: {name} ({count} times)")
        for folder, count in flat.most_common():
            if count > 15:
                print(f"folder: {folder} ({count} files)")


if __name__ == "__main__":
    main()
