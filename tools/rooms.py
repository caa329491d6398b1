"""How much the rooms of a machine's life hold, and how far types are spread: figures with those before and the goals.

tools/rooms.tsv has them. `cargo xtask measure` prints the table, and `cargo xtask lint` refuses a figure above its bound, so that
what was put into one place does not come apart again.
"""

import collections
import pathlib
import re

TABLE = pathlib.Path(__file__).resolve().parent / "rooms.tsv"
ROOMS = ["launcher", "registrar", "terminator", "owner", "interruption"]
ACTORS = {"launcher": "Launcher", "registrar": "Registrar", "terminator": "Terminator"}
KEYED = re.compile(r"\b(?:BTreeMap|BTreeSet|HashMap|HashSet|IndexMap|IndexSet|FxHashMap|SayOnce|Brakes|Alarms|Refusals|Repeats|Book)\b")
STRUCT = re.compile(r"^(?:pub(?:\([^)]*\))? )?struct (\w+)(?:<[^{(;]*>)?(?: \{\n(.*?)\n\}|\(([^;]*)\);)", re.M | re.S)
FIELD = re.compile(r"^    (?:pub(?:\([^)]*\))? )?\w+: (.*)$", re.M)
# Calls that add or drop an entry, and a book's own: what is done to it is done to a collection.
CHANGES = re.compile(
    r"\.(?:insert|remove|entry|retain|clear|extend|append|pop_first)\("
    r"|\b(?:known|book)\s*\.(?:note|gone|enter|open|close)\("
)
IMPL = re.compile(r"^impl(?:<[^{]*?>)? (?:[^{;]*? for )?(\w+)", re.M)
# A type whose `impl` lies in that many files has no place where a reader finds it.
SPREAD = 5


def in_room(production, room):
    return [text for name, text in production.items() if name.startswith(f"actors/src/{room}/")]


def structs(text):
    """Names of the structs of a text, each with the types of its fields."""
    for name, fields, parts in STRUCT.findall(text):
        yield name, FIELD.findall(fields) if fields else [parts]


def collections_of(production, room):
    """Fields of the room's structs that hold something by a key."""
    return sum(bool(KEYED.search(field)) for text in in_room(production, room) for _, fields in structs(text) for field in fields)


def changes_of(production, room):
    return sum(len(CHANGES.findall(text)) for text in in_room(production, room))


def fields_of(production, room):
    """Fields of the room's actor."""
    return next(len(fields) for text in in_room(production, room) for name, fields in structs(text) if name == ACTORS[room])


def lines_of(production, room):
    return sum(text.count("\n") for text in in_room(production, room))


def spread(production):
    """Types of each crate whose `impl` lies in many files, and in how many."""
    files = collections.defaultdict(set)
    for name, text in production.items():
        for type_ in IMPL.findall(text):
            files[(name.partition("/src/")[0], type_)].add(name)
    return {key: len(names) for key, names in files.items() if len(names) >= SPREAD}


def figures(production):
    """Each figure by its name, with what it is made of."""
    by_room = {
        "keyed collections": collections_of,
        "calls that change them": changes_of,
        "lines of the five rooms": lines_of,
    }
    found = {}
    for what, count in by_room.items():
        each = {room: count(production, room) for room in ROOMS}
        found[what] = sum(each.values()), each
    for room, actor in ACTORS.items():
        found[f"fields of {actor}"] = fields_of(production, room), {}
    wide = spread(production)
    most = sorted(((count, type_) for (_, type_), count in wide.items()), reverse=True)
    found[f"types with `impl` in {SPREAD} files or more"] = len(wide), {type_: count for count, type_ in most[:6]}
    return found


def table():
    """Rows of tools/rooms.tsv: name, figure before, bound, goal."""
    lines = TABLE.read_text(encoding="utf-8").split("\n")
    rows = (line.split("\t") for line in lines if line.strip() and not line.startswith("#"))
    return {what: (int(before), int(most), int(goal)) for what, before, most, goal in rows}


def too_many(found, rows):
    """Figures above their bounds, and those that are missing on either side."""
    for what in sorted(found.keys() | rows.keys()):
        if what not in found or what not in rows:
            yield f"tools/rooms.tsv: {what}: in the table and in tools/rooms.py, or in neither"
        elif found[what][0] > rows[what][1]:
            yield f"tools/rooms.tsv: {what}: {found[what][0]}; {rows[what][1]} at most"


def print_table(production):
    found, rows = figures(production), table()
    print(f"\n{'a machine is one value':38} {'before':>7} {'now':>7} {'goal':>7}")
    for what, (now, each) in found.items():
        before, _, goal = rows.get(what, ("", "", ""))
        parts = ", ".join(f"{name} {count}" for name, count in each.items())
        print(f"{what:38} {before:>7} {now:>7} {goal:>7}{'  ' + parts if parts else ''}")
